#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

/// Memory of programs, in the processor or in a device. All calls are made under the engine's lock.
namespace softhca {

/// A piece of a program's memory; a null pointer means none.
using Bytes = std::span<uint8_t>;

/// Memory of a device such as a GPU that the processor cannot access, accessed through the device's driver.
///
/// Requests take effect in the order of the calls, across all devices. Requests other than Read() and
/// Synchronize() may still be in flight when the call returns.
///
/// @errors  every call returns false if the memory or the device is gone: the program may have freed it
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// Reads bytes into processor memory.
  [[nodiscard]] virtual bool Read(uint8_t* to, const uint8_t* from, size_t bytes) = 0;

  /// Writes bytes from processor memory, which may change as soon as the call returns. An aligned word of 4
  /// or 8 bytes arrives whole.
  [[nodiscard]] virtual bool Write(uint8_t* to, const uint8_t* from, size_t bytes) = 0;

  /// Copies bytes of this memory to processor memory, which must stay valid until they arrive.
  [[nodiscard]] virtual bool CopyToHost(uint8_t* to, const uint8_t* from, size_t bytes) = 0;

  /// Copies bytes of this memory to a device of the same driver, possibly this one.
  [[nodiscard]] virtual bool CopyToDevice(DeviceMemory& target, uint8_t* to, const uint8_t* from,
                                          size_t bytes) = 0;

  /// Waits until no request is in flight on any device of the same driver.
  [[nodiscard]] virtual bool Synchronize() = 0;
};

/// Registers a range as a device's memory for its own lifetime. Ranges may overlap.
class DeviceRange {
 public:
  DeviceRange(std::shared_ptr<DeviceMemory> memory, const uint8_t* start, uint64_t bytes);
  /// Waits until no request is in flight: the program may free the memory next.
  ~DeviceRange();
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

 private:
  std::shared_ptr<DeviceMemory> memory_;
};

namespace detail {

inline uint32_t device_ranges = 0;
DeviceMemory* FindDevice(const void* address);

}  // namespace detail

/// Returns whether any device memory is registered. Most programs have none and pay only for this branch.
inline bool HasDeviceMemory() { return __builtin_expect(detail::device_ranges != 0, 0); }

/// Returns the device that owns an address; null for processor memory.
inline DeviceMemory* DeviceOf(const void* address) {
  return HasDeviceMemory() ? detail::FindDevice(address) : nullptr;
}

/// Waits until no request is in flight on any device.
void WaitForDevices();

/// Reads a word that the program writes, in processor or device memory.
///
/// @return  nothing if its memory is gone
std::optional<uint32_t> LoadWord(const uint32_t& word);

}  // namespace softhca
