#include <algorithm>
#include <array>

#include "core/message_requester.hpp"
#include "core/queues.hpp"
#include "dma/null_memory.hpp"
#include "fuzz/guarded_memory.hpp"
#include "wire/byte_order.hpp"
#include "wire/message_link.hpp"

namespace softhca {
namespace {

constexpr uint32_t kDepth = 32;
constexpr std::array kServices{mlx5::ServiceType::kRc, mlx5::ServiceType::kUc, mlx5::ServiceType::kUd};

/// Two connected queue pairs. One executes the WQEs of the input.
class Sender {
 public:
  explicit Sender(mlx5::ServiceType service) : options_{.service = service, .send_depth = kDepth} {
    QpChange to_init = ToInit();
    to_init.qkey = 1;
    for (QpUser* user : {&a, &b}) {
      hca.ModifyQp(user->qpn, mlx5::QpState::kInit, to_init);
      user->Connect(user == &a ? b : a);
    }
    for (int i = 0; i < 4; ++i) {
      b.PostReceive({{mlx5::ToBe32(256), mlx5::ToBe32(memory.key()), mlx5::ToBe64(memory.kFirstAddress)}});
    }
  }

  void Fill(std::span<const uint8_t> ring) {
    std::copy_n(ring.begin(), std::min(ring.size(), size_t{kDepth} * mlx5::kWqebbBytes), a.SendSlot(0));
  }

  /// Reads a WQE from each slot, and requires that it names only registered memory, the null region or
  /// itself.
  void Read(uint32_t posted) {
    for (uint32_t index = 0; index < posted; ++index) {
      SendWqe wqe;
      const bool good = wqe.Read(a.qp(), index, posted - index) == mlx5::Syndrome::kNone;
      Require(wqe.wqebbs() >= 1 && wqe.wqebbs() <= posted - index, "an entry ends where the posted ones do");
      if (!good || (wqe.request().fetches() && !wqe.FindResponseMemory(a.qp()))) continue;
      uint64_t bytes = 0;
      const auto* const self = reinterpret_cast<const uint8_t*>(&wqe);
      for (const Bytes piece : wqe.request().local) {
        bytes += piece.size();
        const bool inlined = piece.data() >= self && piece.data() + piece.size() <= self + sizeof wqe;
        const bool allowed = inlined || IsNullMemory(piece.data()) || memory.Holds(piece);
        Require(allowed, "an entry names registered memory");
      }
      Require(bytes == wqe.request().bytes, "an entry is as long as its pieces");
    }
  }

  /// Executes the posted WQEs, except datagrams: those need packets.
  void Execute(uint32_t posted) {
    if (options_.service == mlx5::ServiceType::kUd) return;
    a.SetSendRecord(posted);
    a.qp().doorbell_pending = true;
    for (uint64_t now_ns = 1; now_ns < 4 * kDepth && requester.Run(a.qp(), now_ns); ++now_ns) {
    }
  }

  GuardedMemory& guarded() { return memory; }

 private:
  QpOptions options_;
  Hca hca{TestDevice()};
  uint32_t pd = hca.AllocPd();
  GuardedMemory memory{hca, pd};
  MessageLink link{{&hca}};
  MessageRequester requester{link};
  QpUser a{hca, pd, options_}, b{hca, pd, options_};
};

}  // namespace
}  // namespace softhca

/// Input: transport service, number of posted WQEBBs, ring.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace softhca;
  FieldReader in({data, size});
  Sender sender(kServices[in.Take<1>() % kServices.size()]);
  const auto posted = static_cast<uint32_t>(in.Take<1>() % (kDepth + 1));
  sender.Fill(in.rest());
  sender.Read(posted);
  sender.Execute(posted);
  sender.guarded().Check();
  return 0;
}
