#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

/// Cursors over wire data: big-endian integers of any number of bytes.
namespace softhca {

/// Writes fields one after the other.
///
/// @pre  the fields fit
class FieldWriter {
 public:
  explicit FieldWriter(std::span<uint8_t> out) : out_(out) {}

  template <size_t kBytes>
  void Put(uint64_t value) {
    for (size_t i = 0; i < kBytes; ++i) out_[at_ + i] = static_cast<uint8_t>(value >> (8 * (kBytes - 1 - i)));
    at_ += kBytes;
  }
  void Put(std::span<const uint8_t> bytes) {
    std::memcpy(&out_[at_], bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  size_t written() const { return at_; }

 private:
  std::span<uint8_t> out_;
  size_t at_ = 0;
};

/// Reads fields one after the other. Past the end it reads zeros, and cut_short() returns true.
class FieldReader {
 public:
  explicit FieldReader(std::span<const uint8_t> in) : in_(in) {}

  template <size_t kBytes>
  uint64_t Take() {
    uint64_t value = 0;
    for (const uint8_t byte : Take(kBytes)) value = value << 8 | byte;
    return value;
  }
  /// Returns the next bytes in place; none if fewer are left.
  std::span<const uint8_t> Take(size_t bytes) {
    if (in_.size() < bytes) {
      cut_short_ = true;
      in_ = {};
      return {};
    }
    const auto taken = in_.first(bytes);
    in_ = in_.subspan(bytes);
    return taken;
  }
  std::span<const uint8_t> rest() const { return in_; }
  bool cut_short() const { return cut_short_; }

 private:
  std::span<const uint8_t> in_;
  bool cut_short_ = false;
};

}  // namespace softhca
