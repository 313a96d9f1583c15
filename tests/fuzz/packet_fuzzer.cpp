#include <algorithm>
#include <array>
#include <vector>

#include "fuzz/require.hpp"
#include "wire/frame.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

std::vector<uint8_t> Encode(const Packet& packet) {
  std::vector<uint8_t> bytes(kMaxPacketHeaderBytes);
  bytes.resize(EncodeHeaders(packet, packet.payload.size(), bytes));
  bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
  bytes.resize(bytes.size() + PadBytes(packet.payload.size()));
  return bytes;
}

std::vector<uint8_t> Encode(const Frame& frame) {
  std::vector<uint8_t> bytes(kMaxFrameHeaderBytes);
  bytes.resize(WriteFrameHeaders(frame.flow, frame.transport.size(), bytes));
  bytes.insert(bytes.end(), frame.transport.begin(), frame.transport.end());
  bytes.resize(bytes.size() + FrameTrailerBytes(frame.flow));
  SealFrame(bytes, LinkOf(frame.flow));
  return bytes;
}

void TakePacket(std::span<const uint8_t> input) {
  const std::optional<Packet> packet = Decode(input);
  if (!packet) return;
  const std::vector<uint8_t> once = Encode(*packet);
  Require(once.size() == input.size(), "a packet takes as many bytes as it came in");
  const std::optional<Packet> again = Decode(once);
  Require(again.has_value(), "an encoded packet is one");
  Require(Encode(*again) == once, "a packet survives its own encoding");
}

void TakeFrame(std::span<const uint8_t> input, mlx5::PortType link) {
  const std::optional<Frame> frame = ParseFrame(input, link);
  if (!frame) return;
  IsSealed(*frame);
  TakePacket(frame->transport.first(frame->transport.size() - kIcrcBytes));
  const std::vector<uint8_t> once = Encode(*frame);
  const std::optional<Frame> again = ParseFrame(once, link);
  Require(again.has_value(), "an encoded frame is one");
  Require(IsSealed(*again), "a sealed frame is sealed");
  Require(Encode(*again) == once, "a frame survives its own encoding");
}

}  // namespace
}  // namespace softhca

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const auto link : {softhca::mlx5::PortType::kEthernet, softhca::mlx5::PortType::kInfiniBand})
    softhca::TakeFrame({data, size}, link);
  softhca::TakePacket({data, size});
  return 0;
}
