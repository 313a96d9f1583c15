#include "soak/bytes.hpp"

namespace soak {
namespace {

/// A key's bytes in order. Each mixed number gives eight.
class Bytes {
 public:
  Bytes(uint64_t key, uint64_t start) : key_(key), at_(start), word_(Mix(key + start / 8)) {}

  uint8_t Next() {
    const auto byte = static_cast<uint8_t>(word_ >> 8 * (at_ % 8));
    if (++at_ % 8 == 0) word_ = Mix(key_ + at_ / 8);
    return byte;
  }

 private:
  uint64_t key_, at_, word_;
};

}  // namespace

void Fill(std::span<uint8_t> memory, uint64_t key, uint64_t start) {
  Bytes bytes(key, start);
  for (uint8_t& byte : memory) byte = bytes.Next();
}

bool Matches(std::span<const uint8_t> memory, uint64_t key, uint64_t start) {
  Bytes bytes(key, start);
  for (const uint8_t byte : memory) {
    if (byte != bytes.Next()) return false;
  }
  return true;
}

}  // namespace soak
