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

/// A new file of zeros, and a second descriptor of one; aborts where there is none.
int NewFile(size_t bytes);
int Duplicate(int fd);

uint64_t NextId();

/// An allocation, or memory of the host that the driver knows.
struct Range {
  Address start = 0;
  size_t bytes = 0;
  int gpu = 0;
  bool managed = false;
  bool sync_memops = false;
  bool pinned = false;    ///< allocated by the driver, in the processor's memory
  uint64_t id = 0;        ///< no other allocation ever has it; of VMM memory, of what is mapped
  bool reserved = false;  ///< addresses that memory of cuMemCreate() can be mapped to
  bool vmm = false;       ///< memory of cuMemCreate(), mapped
  bool imported = false;  ///< by cuIpcOpenMemHandle_v2()
  bool shared = false;    ///< by cuIpcGetMemHandle(): its pages stay in the file they are in
  uint64_t handle_types = 0;
  bool gpu_direct = true;
  int file = -1;  ///< of VMM memory, mapped from its start

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

  /// @param alignment  as the driver's: less than a page
  /// @return  0: it is full
  Address Allocate(size_t bytes, size_t alignment = 512);
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
  bool HasExports(Address start, size_t bytes) const;
  /// Ends the exports that a range had a part in; who holds their files keeps what was in them.
  void TakeBack(Address start, size_t bytes);

  /// Puts pages of a file in the place of this memory's own, and takes them away again.
  void MapPages(int fd, size_t offset_in_file, Address at, size_t bytes) const;
  void MapOwnPages(Address at, size_t bytes) const { MapPages(fd_, OffsetOf(at), at, bytes); }

  /// The file that has all of the memory, but what was exported or mapped, and a place in it.
  int file() const { return fd_; }
  size_t OffsetOf(Address at) const { return at - start(); }

 private:
  Address start() const { return reinterpret_cast<Address>(untouchable_); }

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
