#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "memory.hpp"
#include "stream.hpp"

struct CUctx_st {
  int gpu = 0;
  bool reset = false;
  int references = 0;
  std::set<CUstream_st*> streams{};
  std::set<const void*> handles{};  // streams and events: a reset destroys them, so they are no leak
};

namespace fake_cuda {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNotReady = 600,
  kContextIsDestroyed = 709,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
  kNotPermitted = 800,
  kNotSupported = 801,
};

inline constexpr int kMaxGpus = 8;

/// An allocation by cuMemCreate().
struct Physical {
  uint64_t id = 0;
  int gpu = 0;
  size_t bytes = 0;
  int file = -1;
  uint64_t handle_types = 0;
  bool gpu_direct = false;
  int references = 1;  // number of handles and mappings
};

/// A mapping by cuIpcOpenMemHandle_v2().
struct Opened {
  int process = 0;
  uint64_t id = 0;  // id of the allocation in its process
  Address at = 0;   // address of its first page in this process
  int references = 1;
};

/// The whole state of the driver, under one lock.
struct Driver {
  std::mutex mutex;
  std::atomic<bool> initialised = false;
  std::deque<CUctx_st> all_contexts;  // including reset ones
  CUctx_st* contexts[kMaxGpus];
  std::unique_ptr<DeviceMemory> memory[kMaxGpus];  // made by the first allocation
  std::map<Address, Range> managed;
  std::map<Address, Range> registered;
  std::map<Address, Range> mapped;                  // mappings of cuMemCreate() memory
  std::map<unsigned long long, Physical> physical;  // by handle, which is the id
  std::map<Address, Range> imported;
  std::map<Address, Opened> opened;
  Address refused_as_io = 0;  // address that the last registration refused as I/O memory
  int streams = 0;
  int events = 0;
  std::atomic<int> stream_flushes = 0;  // flushes that streams have executed
  int pcie_exports = 0;
  int kernels = 0;

  Driver();
  DeviceMemory& MemoryOf(int gpu);
  /// Returns the allocation or mapping on a GPU that contains an address, or nullptr.
  Range* Find(Address address);
  /// Returns the allocation or the reserved range that contains an address, or nullptr.
  Range* FindRange(Address address);
  /// Returns the GPU memory whose address range contains an address, allocated or not, or nullptr.
  DeviceMemory* Covering(Address address);
};

Driver& TheDriver();

Range* FindIn(std::map<Address, Range>& ranges, Address address);

/// Returns the calling thread's context. Aborts if there is none.
CUctx_st* Current(const char* function);

/// Aborts on the legacy stream and on a stream of another context.
void CheckStream(const char* function, const CUstream_st* stream);

/// Returns where the processor reaches a range of device memory. Aborts unless the range is in one
/// allocation.
///
/// @pre  the driver is locked
std::byte* ReachRange(const char* function, Address address, size_t bytes);

/// Returns whether a copy must fail because no memory is at its address. With other settings the program
/// aborts.
///
/// @pre  the driver is locked
bool IsGone(Address address);

}  // namespace fake_cuda
