#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// Control of the fake driver by tests. See README.md.
namespace fake_cuda {

/// Replaces the settings: "gpus=2,dma_buf=0". Settings that are not named get their defaults.
///
/// @pre  the program holds nothing of the driver
void Configure(const std::string& settings);

/// Makes a call of a function fail.
///
/// @param function  as exported: "cuMemAlloc_v2"
/// @param nth       number of the call from now on; from 1
/// @param result    a CUresult; 999 is CUDA_ERROR_UNKNOWN
void FailCall(const std::string& function, int nth, int result = 999);

/// Makes the nth call from now on fail, whatever function it calls, unless the function cannot fail; 0: no
/// call.
///
/// Calls that only release something are not counted: their callers cannot report a failure.
void FailAnyCall(int nth);

/// Returns whether a requested failure has not happened yet.
bool FailurePending();

int Calls(const std::string& function);  ///< number of calls since the last Configure()

/// Returns how many flushes of NIC writes streams have executed, ever.
int StreamFlushes();

/// Returns how many exports for mapping over PCIe have succeeded, ever.
int PcieExports();

/// Resources that the program holds.
struct Held {
  int allocations = 0;
  int registrations = 0;
  int streams = 0;
  int events = 0;
  int contexts = 0;  ///< references to primary contexts

  friend bool operator==(const Held&, const Held&) = default;
};
Held HeldNow();

/// Acts like cudaDeviceReset(): destroys the GPU's context and its pinned memory, and touching either faults
/// afterwards. Allocations on the GPU stay until their owners free them.
void ResetGpu(int gpu);

/// Returns the depth of the calling thread's context stack.
size_t ContextDepth();

/// While an object of this class lives, host threads act as a kernel: they may touch device memory at its own
/// address.
///
/// The fake cannot find wrong accesses by other code in that time.
class Kernel {
 public:
  Kernel();
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
};

/// Returns where the processor reaches device memory at any time.
///
/// Aborts unless the range is in one allocation.
std::byte* Reach(const void* device_memory, size_t bytes);

/// Returns whether synchronous copies of the allocation are really synchronous, as a NIC that reads it needs.
bool HasSyncMemops(const void* device_memory);

}  // namespace fake_cuda
