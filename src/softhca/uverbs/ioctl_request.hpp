#pragma once

#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "uverbs/errors.hpp"

namespace softhca::uverbs {

/// An attribute that a method knows.
struct Attribute {
  enum class Need : uint8_t { kNone, kOptional, kRequired };
  uint16_t id = 0;
  Need need = Need::kNone;
};
constexpr Attribute Required(uint16_t id) { return {id, Attribute::Need::kRequired}; }
constexpr Attribute Optional(uint16_t id) { return {id, Attribute::Need::kOptional}; }

/// One command: typed access to its attributes, each length checked.
///
/// @errors  Errno, of every call: EINVAL for an absent or too short attribute, EFAULT for a bad pointer
class IoctlRequest {
 public:
  /// @param address  of the ib_uverbs_ioctl_hdr in the program's memory
  explicit IoctlRequest(uint64_t address);

  uint16_t object() const { return object_; }
  uint16_t method() const { return method_; }

  /// Refuses a command that lacks what the method needs, or insists on what it does not know.
  void Check(std::span<const Attribute> known) const;

  bool Has(uint16_t id) const { return Find(id) != nullptr; }
  size_t Length(uint16_t id) const { return Has(id) ? Find(id)->len : 0; }

  std::vector<uint8_t> GetBytes(uint16_t id) const;

  /// Reads an input that may be longer than `T`, not shorter.
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

  /// Reads a driver's input: what an older program does not send is zero, what a newer one sends must be.
  template <class T>
  T GetExtensible(uint16_t id) const {
    T value{};
    if (Has(id)) CopyExtensible(GetBytes(id), &value, sizeof(T));
    return value;
  }

  /// Answers with `value`, cut or padded with zeros to what the program has room for; no answer if it asks
  /// none.
  template <class T>
  void Set(uint16_t id, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    SetBytes(id, {reinterpret_cast<const uint8_t*>(&value), sizeof(T)});
  }
  void SetBytes(uint16_t id, std::span<const uint8_t> bytes);

  /// Handles and file descriptors stand in the attribute itself.
  uint32_t Handle(uint16_t id) const;
  void SetHandle(uint16_t id, uint32_t handle);

  /// Gives the attributes back to the program, new handles among them.
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
