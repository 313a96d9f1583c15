#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "warpverbs/mlx5/endian.hpp"

/// Command mailboxes: big-endian bit fields in 32-bit words, read and written through typed descriptors.
namespace warpverbs::inline v0_2::mlx5 {

/// The place of a value in a mailbox, or in a context that a mailbox embeds.
struct FieldPlace {
  const char* name;  ///< name in the mlx5 programmer's reference: "struct.field"
  uint32_t bit;      ///< offset of the most significant bit
  uint32_t width;    ///< in bits; up to 32 within one word, or a multiple of 32 from a word's start
};

/// A place with the type of the value there: an unsigned integer, bool or an enumeration, of at most 64 bits.
template <class T>
struct Field : FieldPlace {
  /// Returns the same field of a context that starts at `context_bit`.
  constexpr Field At(uint32_t context_bit) const { return {{name, bit + context_bit, width}}; }
};

/// Writes `value` to its field; the words are big-endian.
///
/// @errors  std::out_of_range: the value needs more bits than its field, or the field ends past the mailbox
template <class T>
constexpr void SetField(std::span<Be32> words, Field<T> field, std::type_identity_t<T> typed) {
  const auto value = static_cast<uint64_t>(typed);
  const size_t word = field.bit / 32;
  if ((field.bit + field.width + 31) / 32 > words.size() || (field.width < 64 && value >> field.width != 0)) {
    throw std::out_of_range(std::string("mlx5 mailbox: ") + field.name + " does not take " +
                            std::to_string(value));
  }
  if (field.width == 64) {
    words[word] = ToBe32(static_cast<uint32_t>(value >> 32));
    words[word + 1] = ToBe32(static_cast<uint32_t>(value));
    return;
  }
  const uint32_t shift = 32 - field.bit % 32 - field.width;
  const auto mask = static_cast<uint32_t>((uint64_t{1} << field.width) - 1) << shift;
  words[word] = ToBe32((FromBe(words[word]) & ~mask) | static_cast<uint32_t>(value) << shift);
}

/// Reads a field; the words are big-endian.
///
/// @errors  std::out_of_range: the field ends past the mailbox
template <class T>
constexpr T GetField(std::span<const Be32> words, Field<T> field) {
  const size_t word = field.bit / 32;
  if ((field.bit + field.width + 31) / 32 > words.size()) {
    throw std::out_of_range(std::string("mlx5 mailbox: too short for ") + field.name);
  }
  if (field.width == 64) {
    return static_cast<T>(uint64_t{FromBe(words[word])} << 32 | FromBe(words[word + 1]));
  }
  const uint32_t shift = 32 - field.bit % 32 - field.width;
  return static_cast<T>(FromBe(words[word]) >> shift & ((uint64_t{1} << field.width) - 1));
}

/// A zeroed mailbox of a fixed size.
template <size_t kBytes>
class Mailbox {
  static_assert(kBytes % 4 == 0);

 public:
  template <class T>
  constexpr Mailbox& Set(Field<T> field, std::type_identity_t<T> value) {
    SetField(std::span<Be32>(words_), field, value);
    return *this;
  }
  template <class T>
  constexpr T Get(Field<T> field) const {
    return GetField(std::span<const Be32>(words_), field);
  }

  /// Copies bytes unchanged, for places wider than any integer (a GID).
  ///
  /// @pre  `bytes` fills the place: `8 * bytes.size() == place.width`
  void SetBytes(FieldPlace place, uint32_t context_bit, std::span<const uint8_t> bytes) {
    std::memcpy(words_.data() + (place.bit + context_bit) / 32, bytes.data(), bytes.size());
  }

  void* data() { return words_.data(); }
  const void* data() const { return words_.data(); }
  static constexpr size_t size() { return kBytes; }

 private:
  std::array<Be32, kBytes / 4> words_{};
};

}  // namespace warpverbs::inline v0_2::mlx5
