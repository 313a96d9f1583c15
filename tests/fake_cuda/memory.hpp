#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace fake_cuda {

using Address = uint64_t;

/// An allocation, or memory of the host that the driver knows.
struct Range {
  Address start = 0;
  size_t bytes = 0;
  int gpu = 0;
  bool managed = false;
  bool sync_memops = false;
  bool pinned = false;  ///< allocated by the driver, in the processor's memory

  bool Has(Address address, size_t length) const {
    return address >= start && length <= bytes && address - start <= bytes - length;
  }
};

/// The memory of one GPU: addresses that the processor must not touch, and a second mapping for the fake.
///
/// Not thread-safe.
class DeviceMemory {
 public:
  DeviceMemory(int gpu, size_t bytes, bool touchable);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// @return  0: it is full
  Address Allocate(size_t bytes);
  bool Free(Address start);
  size_t allocations() const { return allocations_.size(); }

  /// The allocation that an address lies in.
  Range* Find(Address address);
  /// Whether an address is this GPU's, be there an allocation or not.
  bool Covers(Address address) const { return address - start() < bytes_; }
  /// Where the processor reaches it.
  std::byte* Reach(Address address) const { return reachable_ + (address - start()); }

  /// Lets the processor touch it all, or no longer.
  void LetTouch(bool touch);

  /// Makes a range of whole pages a file of its own, from offset 0.
  ///
  /// @return  a new descriptor; -1: the range overlaps another export, and a page has one file only
  int Export(Address start, size_t bytes);

 private:
  Address start() const { return reinterpret_cast<Address>(untouchable_); }
  void MapPages(int fd, size_t offset_in_file, Address at, size_t bytes) const;
  void TakeBack(Address start, size_t bytes);

  int gpu_;
  size_t bytes_;
  int fd_;
  std::byte* untouchable_;
  std::byte* reachable_;
  int protection_;  // of the addresses that a program has
  std::map<Address, Range> allocations_;
  struct Exported {
    size_t bytes;
    int fd;
  };
  std::map<Address, Exported> exports_;
};

}  // namespace fake_cuda
