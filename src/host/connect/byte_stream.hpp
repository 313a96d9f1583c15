#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Numbers in network order, one after the other, in the form in which they cross machines.
namespace warpverbs::inline v0_2::host {

class ByteWriter {
 public:
  /// @param count  bytes that the value takes
  void Put(size_t count, uint64_t value) {
    while (count-- != 0) bytes_.push_back(static_cast<uint8_t>(value >> 8 * count));
  }
  void Put(std::span<const uint8_t> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

/// Reads what a ByteWriter wrote. Values past the end are 0, and ok() is false from then on.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  uint64_t Get(size_t count) {
    uint64_t value = 0;
    for (const uint8_t byte : GetBytes(count)) value = value << 8 | byte;
    return value;
  }
  std::span<const uint8_t> GetBytes(size_t count) {
    ok_ = ok_ && count <= rest_.size();
    if (!ok_) return {};
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }

  bool ok() const { return ok_; }
  std::span<const uint8_t> rest() const { return rest_; }

 private:
  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace warpverbs::inline v0_2::host
