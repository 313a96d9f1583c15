#pragma once

#include <cstddef>
#include <string>

namespace fake_cuda {

/// The settings of WARPVERBS_FAKE_CUDA or Configure(), by name.
struct Settings {
  int gpus = 1;
  int integrated = 0;         ///< CU_DEVICE_ATTRIBUTE_INTEGRATED
  int dma_buf = 1;            ///< whether memory can be exported
  int mapped_exports = 1;     ///< whether the processor can map exports: it cannot map those of a real driver
  int pcie = 1;               ///< whether exports can be mapped over PCIe, with a recent driver
  int version = 13000;        ///< result of cuDriverGetVersion()
  int gpu_direct = 1;         ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED
  int vmm = 1;                ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
  int writes_ordering = 100;  ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING
  int flush = 1;   ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: 1 by the host, 2 by streams
  int uar_io = 0;  ///< whether memory can be registered as I/O memory
  int uar_plain = 1;      ///< whether such memory can be registered as plain memory
  int same_address = 1;   ///< whether registered memory has one address on host and GPU
  int megabytes = 64;     ///< memory of each GPU
  int delay_us = 0;       ///< delay of each piece of work; streams then have threads
  int first_mapping = 0;  ///< whether attributes wrongly describe the first mapping
  int pools = 0;          ///< whether memory is allocated from a pool, as by cudaMallocAsync()
  int gone_is_error = 0;  ///< whether a copy of unallocated memory fails, as really, or aborts
};

const Settings& Get();
void Set(const std::string& text);  ///< aborts on an unknown name or a bad number

/// Counts a call of a function. Returns the CUresult that it must fail with, or 0.
///
/// @param gives_back  whether the function only releases something; see FailAnyCall()
int Failure(const char* function, bool gives_back = false);

/// Ends the program because it misuses the driver.
[[noreturn]] void Abort(const char* function, const std::string& misuse);

}  // namespace fake_cuda
