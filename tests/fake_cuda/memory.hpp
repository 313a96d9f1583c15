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

inline constexpr size_t kPage = 4096;

/// Makes a new file of zeros, or duplicates a descriptor. Both abort on failure.
int NewFile(size_t bytes);
int Duplicate(int fd);

uint64_t NextId();

/// An allocation, or host memory that the driver knows.
struct Range {
  Address start = 0;
  size_t bytes = 0;
  int gpu = 0;
  bool managed = false;
  bool sync_memops = false;
  bool pinned = false;    ///< host memory allocated by the driver
  uint64_t id = 0;        ///< unique id; that of the mapped allocation for VMM memory
  bool reserved = false;  ///< address range reserved for cuMemMap()
  bool vmm = false;       ///< mapping of cuMemCreate() memory
  bool imported = false;  ///< mapped by cuIpcOpenMemHandle_v2()
  bool shared = false;    ///< has an IPC handle: its pages stay in their file
  uint64_t handle_types = 0;
  bool gpu_direct = true;
  int file = -1;  ///< file of VMM memory, mapped from its start

  bool Has(Address address, size_t length) const {
    return address >= start && length <= bytes && address - start <= bytes - length;
  }
};

/// The memory of one GPU: addresses that the processor must not touch, and a second mapping for the fake
/// itself.
///
/// Not thread-safe.
class DeviceMemory {
 public:
  DeviceMemory(int gpu, size_t bytes, bool touchable);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// @param alignment  less than a page, like the driver's
  /// @return  0 if the memory is full
  Address Allocate(size_t bytes, size_t alignment = 512);
  bool Free(Address start);
  size_t allocations() const { return allocations_.size(); }

  /// Returns the allocation that contains an address.
  Range* Find(Address address);
  /// Returns whether an address belongs to this GPU, allocated or not.
  bool Covers(Address address) const { return address - start() < bytes_; }
  /// Returns where the processor reaches it.
  std::byte* Reach(Address address) const { return reachable_ + (address - start()); }

  /// Allows or forbids the processor to touch all of it.
  void LetTouch(bool touch);

  /// Moves a range of whole pages to a file of its own, at offset 0.
  ///
  /// @return  a new descriptor, or -1 if the range overlaps another export: a page has only one file
  int Export(Address start, size_t bytes);
  bool HasExports(Address start, size_t bytes) const;
  /// Ends the exports that overlap a range. Their files keep their content.
  void TakeBack(Address start, size_t bytes);

  /// Replaces this memory's pages by pages of a file, and restores them.
  void MapPages(int fd, size_t offset_in_file, Address at, size_t bytes) const;
  void MapOwnPages(Address at, size_t bytes) const { MapPages(fd_, OffsetOf(at), at, bytes); }

  /// The file of all memory that is neither exported nor mapped, and an address's offset in it.
  int file() const { return fd_; }
  size_t OffsetOf(Address at) const { return at - start(); }

 private:
  Address start() const { return reinterpret_cast<Address>(untouchable_); }

  int gpu_;
  size_t bytes_;
  int fd_;
  std::byte* untouchable_;
  std::byte* reachable_;
  int protection_;  // protection of the addresses that the program sees
  std::map<Address, Range> allocations_;
  struct Exported {
    size_t bytes;
    int fd;
  };
  std::map<Address, Exported> exports_;
};

}  // namespace fake_cuda
