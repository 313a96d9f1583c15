#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace verbs {

/// Zeroed memory for tests: of the host, or of a fake GPU in programs that link gpu_memory.cpp.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Returns the address at which the test accesses the memory.
  uint8_t* data() const { return data_; }
  uint8_t& operator[](size_t offset) const { return data_[offset]; }
  /// Returns the address for registrations and work requests.
  uint64_t address() const { return address_; }
  void* pointer() const { return reinterpret_cast<void*>(address_); }
  size_t size() const { return bytes_; }

 private:
  struct Owner;

  size_t bytes_;
  std::unique_ptr<Owner> owner_;
  uint64_t address_;
  uint8_t* data_;
};

}  // namespace verbs
