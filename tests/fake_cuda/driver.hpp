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
  std::set<const void*> handles{};  // streams and events: what a reset takes away is nobody's leak
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

inline constexpr int kMostGpus = 8;

/// What cuMemCreate() made.
struct Physical {
  uint64_t id = 0;
  int gpu = 0;
  size_t bytes = 0;
  int file = -1;
  uint64_t handle_types = 0;
  bool gpu_direct = false;
  int references = 1;  // handles and mappings
};

/// What cuIpcOpenMemHandle_v2() mapped.
struct Opened {
  int process = 0;
  uint64_t id = 0;  // of the allocation, there
  Address at = 0;   // of its first page, here
  int references = 1;
};

/// All that the driver knows, under one lock.
struct Driver {
  std::mutex mutex;
  std::atomic<bool> initialised = false;
  std::deque<CUctx_st> all_contexts;  // with those that were reset
  CUctx_st* contexts[kMostGpus];
  std::unique_ptr<DeviceMemory> memory[kMostGpus];  // as long as anything was ever allocated
  std::map<Address, Range> managed;
  std::map<Address, Range> registered;
  std::map<Address, Range> mapped;                  // memory of cuMemCreate()
  std::map<unsigned long long, Physical> physical;  // by handle: the id
  std::map<Address, Range> imported;
  std::map<Address, Opened> opened;
  Address refused_as_io = 0;  // by the last registration
  int streams = 0;
  int events = 0;
  std::atomic<int> stream_flushes = 0;  // that streams have come to
  int pcie_exports = 0;
  int kernels = 0;

  Driver();
  DeviceMemory& MemoryOf(int gpu);
  /// The allocation or mapping on a GPU that an address lies in; nullptr: none.
  Range* Find(Address address);
  /// The allocation or the reserved range.
  Range* FindRange(Address address);
  /// The memory that has an address, be anything there or not; nullptr: none.
  DeviceMemory* Covering(Address address);
};

Driver& TheDriver();

Range* FindIn(std::map<Address, Range>& ranges, Address address);

/// The calling thread's context; aborts if there is none.
CUctx_st* Current(const char* function);

/// Aborts on the legacy stream and on one of another context.
void CheckStream(const char* function, const CUstream_st* stream);

/// Where the processor reaches a range of device memory; aborts unless it lies in one allocation.
///
/// @pre  the driver is locked
std::byte* ReachRange(const char* function, Address address, size_t bytes);

/// Whether the settings let a copy fail that would else end the program: there is no memory at its address.
///
/// @pre  the driver is locked
bool IsGone(Address address);

}  // namespace fake_cuda
