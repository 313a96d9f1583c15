#include "words.hpp"

#include <array>
#include <cstdint>
#include <utility>

namespace warpverbs::transport {

std::string InWords(std::chrono::nanoseconds time) {
  constexpr std::array<std::pair<int64_t, const char*>, 3> kUnits{
      {{1'000'000'000, " s"}, {1'000'000, " ms"}, {1'000, " us"}}};
  for (const auto& [ns, name] : kUnits) {
    if (time.count() % ns == 0) return std::to_string(time.count() / ns) + name;
  }
  return std::to_string(time.count()) + " ns";
}

}  // namespace warpverbs::transport
