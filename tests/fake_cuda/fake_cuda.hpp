#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// What a test can ask of the fake driver and tell it. See README.md.
namespace fake_cuda {

/// Replaces the settings: "gpus=2,dma_buf=0". What is not named gets its default.
///
/// @pre  the driver holds nothing
void Configure(const std::string& settings);

/// Lets a call of a function fail.
///
/// @param function  as exported: "cuMemAlloc_v2"
/// @param nth       of the calls from now on; from 1
/// @param result    a CUresult; 999 is CUDA_ERROR_UNKNOWN
void FailCall(const std::string& function, int nth, int result = 999);

/// Lets the nth call of any function that may fail, from now on, fail; 0: none.
///
/// Those that only give back are not counted: their callers have nobody to tell.
void FailAnyCall(int nth);

/// Whether a failure that was asked for has not happened yet.
bool FailurePending();

int Calls(const std::string& function);  ///< since the last Configure()

/// How many flushes of what others wrote to a GPU streams have come to, ever.
int StreamFlushes();

/// How many exports were asked to be mapped over PCIe and were, ever.
int PcieExports();

/// What the program holds now.
struct Held {
  int allocations = 0;
  int registrations = 0;
  int streams = 0;
  int events = 0;
  int contexts = 0;  ///< references to primary contexts

  friend bool operator==(const Held&, const Held&) = default;
};
Held HeldNow();

/// Plays a program that calls cudaDeviceReset(): the GPU's context and the pinned memory that came from it
/// are gone, and who touches that faults. Allocations on the GPU stay for their owners to give back.
void ResetGpu(int gpu);

/// How many contexts the calling thread has on its stack.
size_t ContextDepth();

/// While one lives, threads of the processor stand for a kernel: they may touch device memory at its own
/// address.
///
/// What must not touch it meanwhile is found only when none lives.
class Kernel {
 public:
  Kernel();
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
};

/// Where the processor reaches device memory at any time.
///
/// Aborts unless the range lies in one allocation.
std::byte* Reach(const void* device_memory, size_t bytes);

/// Whether synchronous copies of the allocation are synchronous for all, as a NIC that reads it needs.
bool HasSyncMemops(const void* device_memory);

}  // namespace fake_cuda
