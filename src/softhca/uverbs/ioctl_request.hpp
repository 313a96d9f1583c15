#pragma once

#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "uverbs/errors.hpp"

namespace softhca::uverbs {

/// An attribute of a method.
struct Attribute {
  enum class Need : uint8_t { kNone, kOptional, kRequired };
  uint16_t id = 0;
  Need need = Need::kNone;
};
constexpr Attribute Required(uint16_t id) { return {id, Attribute::Need::kRequired}; }
constexpr Attribute Optional(uint16_t id) { return {id, Attribute::Need::kOptional}; }

/// The attributes of a command, with typed and checked access.
///
/// @errors  Errno, from every call: EINVAL for a missing or too short attribute, EFAULT for a bad pointer
class IoctlRequest {
 public:
  /// @param address  of the ib_uverbs_ioctl_hdr in the program's memory
  explicit IoctlRequest(uint64_t address);

  uint16_t object() const { return object_; }
  uint16_t method() const { return method_; }

  /// Checks that all required attributes are present, and that unknown ones are not mandatory.
  void Check(std::span<const Attribute> known) const;

  bool Has(uint16_t id) const { return Find(id) != nullptr; }
  size_t Length(uint16_t id) const { return Has(id) ? Find(id)->len : 0; }

  std::vector<uint8_t> GetBytes(uint16_t id) const;

  /// Reads an input of at least the size of `T`.
  template <class T>
  T Get(uint16_t id) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::vector<uint8_t> bytes = GetBytes(id);
    if (bytes.size() < sizeof(T)) throw Errno(EINVAL, "attribute " + std::to_string(id) + " is too short");
    T value;
    std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
    return value;
  }

  template <class T>
  T Get(uint16_t id, T otherwise) const {
    return Has(id) ? Get<T>(id) : otherwise;
  }

  /// Reads a driver's input of any length. Fields that an older program does not send are zero; fields that a
  /// newer program adds must be zero.
  template <class T>
  T GetExtensible(uint16_t id) const {
    T value{};
    if (Has(id)) CopyExtensible(GetBytes(id), &value, sizeof(T));
    return value;
  }

  /// Writes an output, truncated or padded with zeros to the program's buffer. Does nothing if the attribute
  /// is absent.
  template <class T>
  void Set(uint16_t id, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    SetBytes(id, {reinterpret_cast<const uint8_t*>(&value), sizeof(T)});
  }
  void SetBytes(uint16_t id, std::span<const uint8_t> bytes);

  /// Reads a handle or file descriptor, which is in the attribute itself.
  uint32_t Handle(uint16_t id) const;
  void SetHandle(uint16_t id, uint32_t handle);

  /// Writes the attributes back to the program, with new handles.
  void WriteBack() const;

 private:
  const ib_uverbs_attr* Find(uint16_t id) const;
  ib_uverbs_attr& Need(uint16_t id);
  static void CopyExtensible(std::span<const uint8_t> bytes, void* value, size_t size);

  uint64_t attributes_address_;
  uint16_t object_;
  uint16_t method_;
  std::vector<ib_uverbs_attr> attributes_;
};

}  // namespace softhca::uverbs
