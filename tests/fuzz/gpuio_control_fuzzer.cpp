#include <algorithm>
#include <span>
#include <string>

#include "fuzz/require.hpp"
#include "gpuio/control/messages.hpp"
#include "gpuio/control/names.hpp"

/// Uses the input as a request, a reply, the name of a link and the target of one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace warpverbs::gpuio;
  using softhca::Require;
  const std::span bytes(data, size);
  if (const auto request = ControlRequest::Decode(bytes))
    Require(std::ranges::equal(request->Encode(), bytes), "a request has one form");
  if (const auto reply = ControlReply::Decode(bytes))
    Require(std::ranges::equal(reply->Encode(), bytes), "a reply has one form");
  const std::string text(data, data + size);
  if (const auto name = LinkName::Parse(text)) Require(name->ToString() == text, "a name has one form");
  if (const auto uri = GpuUri::Parse(text)) {
    Require(GpuUri::Parse(uri->ToString()) == uri, "a URI survives its own text");
    Require(uri->bytes <= uri->allocation_bytes && uri->offset <= uri->allocation_bytes - uri->bytes,
            "it is inside");
  }
  const std::string file = ShmNameOf(std::string_view(text));
  Require(file.find('/') == std::string::npos && file != "..", "a file is in /dev/shm");
  return 0;
}
