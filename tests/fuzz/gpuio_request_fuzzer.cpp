#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/require.hpp"
#include "gpuio/protocol/messages.hpp"
#include "gpuio/protocol/samples.hpp"

using namespace warpverbs::gpuio::protocol;

namespace {

std::span<const uint8_t> BodyOf(const std::vector<uint8_t>& frame) {
  return std::span(frame).subspan(FrameHeader::kBytes);
}

void TakeRequest(uint16_t type, std::span<const uint8_t> body) {
  const auto request = DecodeRequest(type, body);
  if (!request) return;
  const auto frame = EncodeFrame(1, *request);
  const auto again = DecodeRequest(type, BodyOf(frame));
  softhca::Require(again && EncodeFrame(1, *again) == frame, "a request survives its encoding");
}

void TakeReply(std::span<const uint8_t> body) {
  for (const Request& request : SampleRequests()) {
    const auto answer = DecodeReply(request, body);
    if (!answer) continue;
    const auto frame = EncodeReply(1, TypeOf(request), answer->error, answer->reply);
    softhca::Require(DecodeReply(request, BodyOf(frame)).has_value(), "a reply survives its encoding");
  }
}

}  // namespace

/// Uses the input as a frame, as the body of a reply to each request, and as greetings.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  TakeReply(bytes);
  static_cast<void>(DecodeHello(bytes));
  static_cast<void>(DecodeWelcome(bytes));
  if (size < FrameHeader::kBytes) return 0;
  const auto header = DecodeHeader(bytes.first<FrameHeader::kBytes>());
  if (header) TakeRequest(header->type, bytes.subspan(FrameHeader::kBytes));
  return 0;
}
