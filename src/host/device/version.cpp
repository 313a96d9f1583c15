#include "warpverbs/version.hpp"

#define WARPVERBS_TEXT_OF(x) #x
#define WARPVERBS_TEXT(x) WARPVERBS_TEXT_OF(x)

namespace warpverbs::inline v0_2 {

const char* Version() {
  return WARPVERBS_TEXT(WARPVERBS_VERSION_MAJOR) "." WARPVERBS_TEXT(WARPVERBS_VERSION_MINOR) "." WARPVERBS_TEXT(
      WARPVERBS_VERSION_PATCH);
}

}  // namespace warpverbs::inline v0_2
