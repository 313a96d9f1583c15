#include <span>
#include <string>

#include "fuzz/require.hpp"
#include "transport/checked_text.hpp"
#include "transport/url.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::transport {
namespace {

void Take(const std::string& text) {
  Url url;
  try {
    url = Url::FromText(text);
  } catch (const host::Error&) {
    return;
  }
  softhca::Require(Url::FromText(url.ToText()) == url, "a URL survives its own text");
}

}  // namespace
}  // namespace warpverbs::transport

/// The input as a URL, and as what a URL with a right checksum carries.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using warpverbs::transport::CheckedText;
  warpverbs::transport::Take(std::string(reinterpret_cast<const char*>(data), size));
  const CheckedText format{.kind = "url", .version = warpverbs::transport::Url::kVersion, .object = "a URL"};
  warpverbs::transport::Take(format.Write(std::span(data, size)));
  return 0;
}
