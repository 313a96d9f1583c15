#include <string>
#include <vector>

#include "fuzz/require.hpp"
#include "transport/resealed.hpp"
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

/// Uses the input as a URL, as the payload of a URL with a correct checksum, and as a payload whose queue
/// pairs have correct checksums, too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using warpverbs::transport::kUrlFormat;
  warpverbs::transport::Take(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<uint8_t> carried(data, data + size);
  warpverbs::transport::Take(kUrlFormat.Encode(carried));
  warpverbs::transport::ResealQueuePairs(carried);
  warpverbs::transport::Take(kUrlFormat.Encode(carried));
  return 0;
}
