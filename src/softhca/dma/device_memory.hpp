#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

/// Memory that the processor cannot touch. Everything here is called under the engine's lock.
namespace softhca {

/// Memory of a device such as a GPU, as the device's driver reaches it.
///
/// Whatever is asked for, of whichever device, happens in the order in which it was asked for. All but Read()
/// and Settle() may still be under way when they return.
///
/// @errors  every call returns false if memory is gone, or the device: the program may have freed it
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// Reads bytes into the processor's memory.
  [[nodiscard]] virtual bool Read(uint8_t* to, const uint8_t* from, size_t bytes) = 0;

  /// Writes bytes of the processor's memory, which may change at once. An aligned word of 4 or 8 bytes
  /// arrives whole.
  [[nodiscard]] virtual bool Write(uint8_t* to, const uint8_t* from, size_t bytes) = 0;

  /// Moves bytes of this memory to the processor's, which must stay until they are there.
  [[nodiscard]] virtual bool MoveOut(uint8_t* to, const uint8_t* from, size_t bytes) = 0;

  /// Moves bytes of this memory to that of a device of the same driver, be it the same device.
  [[nodiscard]] virtual bool MoveOver(DeviceMemory& target, uint8_t* to, const uint8_t* from,
                                      size_t bytes) = 0;

  /// Waits until nothing is under way, on any device of the same driver.
  [[nodiscard]] virtual bool Settle() = 0;
};

/// Makes it known, as long as it lives, that a range lies in a device's memory. Ranges may overlap.
class DeviceRange {
 public:
  DeviceRange(std::shared_ptr<DeviceMemory> memory, const uint8_t* start, uint64_t bytes);
  /// Waits until nothing is under way: the program may free the memory next.
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

/// Whether there is any memory that the processor cannot touch: most programs have none, and pay this branch.
inline bool HasDeviceMemory() { return __builtin_expect(detail::device_ranges != 0, 0); }

/// The device that an address lies in; null: the processor's own memory.
inline DeviceMemory* DeviceOf(const void* address) {
  return HasDeviceMemory() ? detail::FindDevice(address) : nullptr;
}

/// Waits until nothing is under way on any device.
void SettleDevices();

/// Reads a word that the program writes, wherever it lies.
///
/// @return  nothing if its memory is gone
std::optional<uint32_t> LoadWord(const uint32_t& word);

}  // namespace softhca
