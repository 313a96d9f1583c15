#include <string>
#include <utility>

/// Has a fault, which `tools/test lint` must find: otherwise clang-tidy checks nothing. No build compiles it.
namespace warpverbs::tests {

std::string Twice(std::string text) {
  const std::string moved = std::move(text);
  return moved + text;
}

}  // namespace warpverbs::tests
