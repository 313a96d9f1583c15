#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "warpverbs/version.hpp"

/// Bytes of messages: little-endian integers of their size, strings and lists behind their length.
///
/// A message names its fields once, for both directions: `static void Fields(auto& message, auto& wire)`
/// calls `wire(message.a, message.b)`.
namespace warpverbs::inline v0_2::gpuio::protocol {

template <class T>
concept Number = std::is_integral_v<T> || std::is_enum_v<T>;

template <class T, class Wire>
concept HasFields = requires(T& message, Wire& wire) {
  T::Fields(message, wire);
};

/// Appends fields to bytes.
class Encoder {
 public:
  explicit Encoder(std::vector<uint8_t>& bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(const T&... fields) {
    (Put(fields), ...);
  }

 private:
  template <Number T>
  void Put(T value) {
    const auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
  void Put(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  template <size_t kBytes>
  void Put(const std::array<uint8_t, kBytes>& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void Put(const timespec& time) {
    Put(static_cast<int64_t>(time.tv_sec));
    Put(static_cast<int64_t>(time.tv_nsec));
  }
  template <class T>
  void Put(const std::vector<T>& list) {
    Put(static_cast<uint32_t>(list.size()));
    for (const T& item : list) Put(item);
  }
  template <class T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value) Put(*value);
  }
  template <class T>
  requires HasFields<T, Encoder>
  void Put(const T& message) { T::Fields(message, *this); }
  template <class T>
  requires requires(const T& value, Encoder& wire) { Fields(value, wire); }
  void Put(const T& value) { Fields(value, *this); }

  std::vector<uint8_t>& bytes_;
};

/// Takes fields from untrusted bytes. After the first that is not there, ok() is false, and fields are empty.
class Decoder {
 public:
  explicit Decoder(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... fields) {
    (Take(fields), ...);
  }

  /// Says whether all fields were there.
  bool ok() const { return ok_; }

  /// Says whether all fields were there, and nothing else.
  bool Complete() const { return ok_ && bytes_.empty(); }

  void Refuse() { ok_ = false; }

 private:
  std::span<const uint8_t> Bytes(size_t count) {
    if (!ok_ || count > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <Number T>
  void Take(T& value) {
    uint64_t bits = 0;
    size_t shift = 0;
    for (const uint8_t byte : Bytes(sizeof(T))) {
      bits |= uint64_t{byte} << shift;
      shift += 8;
    }
    if constexpr (std::is_same_v<T, bool>) {
      if (bits > 1) ok_ = false;
      value = bits == 1;
    } else {
      value = static_cast<T>(bits);
    }
  }
  void Take(std::string& text) {
    uint32_t size = 0;
    Take(size);
    const auto bytes = Bytes(size);
    text.assign(bytes.begin(), bytes.end());
  }
  template <size_t kBytes>
  void Take(std::array<uint8_t, kBytes>& bytes) {
    bytes.fill(0);
    std::ranges::copy(Bytes(kBytes), bytes.begin());
  }
  void Take(timespec& time) {
    int64_t seconds = 0, nanoseconds = 0;
    Take(seconds);
    Take(nanoseconds);
    time = {.tv_sec = seconds, .tv_nsec = nanoseconds};
  }
  template <class T>
  void Take(std::vector<T>& list) {
    uint32_t count = 0;
    Take(count);
    list.clear();
    // Grows with the bytes that are there, whatever the count says: an item has a byte at least.
    for (uint32_t i = 0; i < count && ok_; ++i) Take(list.emplace_back());
    if (!ok_) list.clear();
  }
  template <class T>
  void Take(std::optional<T>& value) {
    bool there = false;
    Take(there);
    value.reset();
    if (there && ok_) Take(value.emplace());
  }
  template <class T>
  requires HasFields<T, Decoder>
  void Take(T& message) { T::Fields(message, *this); }
  template <class T>
  requires requires(T& value, Decoder& wire) { Fields(value, wire); }
  void Take(T& value) { Fields(value, *this); }

  std::span<const uint8_t> bytes_;
  bool ok_ = true;
};

}  // namespace warpverbs::inline v0_2::gpuio::protocol
