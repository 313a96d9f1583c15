#include <algorithm>
#include <vector>

#include "core/queues.hpp"
#include "fuzz/guarded_memory.hpp"
#include "wire/byte_order.hpp"
#include "wire/packet_responder.hpp"

namespace softhca {
namespace {

/// Requires that every packet sent has its payload in registered memory and survives encoding and parsing.
class CheckingSink : public PacketSink {
 public:
  explicit CheckingSink(const GuardedMemory& memory) : memory_(memory) {}

  bool Send(const QueuePair&, Packet packet, const Gather& payload) override {
    std::vector<uint8_t> bytes(kMaxPacketHeaderBytes);
    bytes.resize(EncodeHeaders(packet, payload.bytes, bytes));
    uint64_t held = 0;
    for (const Bytes piece : payload.pieces) {
      Require(piece.empty() || memory_.Holds(piece), "an answer comes from registered memory");
      held += piece.size();
    }
    Require(payload.offset + payload.bytes <= held, "an answer has the bytes that it says");
    bytes.resize(bytes.size() + payload.bytes + PadBytes(payload.bytes));
    const std::optional<Packet> decoded = Decode(bytes);
    Require(decoded && !IsRequest(*decoded), "an answer is a packet and no request");
    return true;
  }

 private:
  const GuardedMemory& memory_;
};

/// A queue pair that receives arbitrary packets.
class Receiver {
 public:
  explicit Receiver(mlx5::ServiceType service) : a{hca, pd, {.service = service}} {
    a.Connect(a);
    if (service == mlx5::ServiceType::kUc) service_ = PacketService::kUc;
  }

  void PostReceive() {
    using mlx5::ToBe32, mlx5::ToBe64;
    a.PostReceive({{ToBe32(100), ToBe32(memory.key()), ToBe64(memory.kFirstAddress)},
                   {ToBe32(2000), ToBe32(memory.key()), ToBe64(memory.kFirstAddress + 1000)}});
  }
  void Take(Packet packet, bool expected) {
    if (expected) packet.psn = a.qp().next_receive_psn;
    if (expected) packet.service = service_;
    if (Listens(a.qp()) && IsRequest(packet)) responder.OnRequest(packet);
  }
  void Flush() {
    while (Listens(a.qp()) && responder.Flush()) {
    }
  }
  void Check() const { memory.Check(); }

 private:
  Hca hca{TestDevice()};
  uint32_t pd = hca.AllocPd();
  GuardedMemory memory{hca, pd};
  CheckingSink sink{memory};
  QpUser a;
  PacketService service_ = PacketService::kRc;
  PacketResponder responder{a.qp(), sink};
};

enum Flags : uint8_t {
  kExpected = 1,  ///< replaces PSN and service of the packet by the expected ones
  kPostReceive = 2,
  kFlush = 4,
};

}  // namespace
}  // namespace softhca

/// Input: transport service, then packets, each preceded by flags and its length in words.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace softhca;
  FieldReader in({data, size});
  Receiver receiver(in.Take<1>() % 2 == 0 ? mlx5::ServiceType::kRc : mlx5::ServiceType::kUc);
  while (!in.rest().empty()) {
    const uint64_t flags = in.Take<1>();
    const size_t bytes = std::min(in.Take<2>() * 4, in.rest().size());
    if ((flags & kPostReceive) != 0) receiver.PostReceive();
    if (const auto packet = Decode(in.Take(bytes))) receiver.Take(*packet, (flags & kExpected) != 0);
    if ((flags & kFlush) != 0) receiver.Flush();
  }
  receiver.Flush();
  receiver.Check();
  return 0;
}
