#pragma once

#include <cstddef>
#include <string>

namespace fake_cuda {

/// What WARPVERBS_FAKE_CUDA or Configure() chooses, by name.
struct Settings {
  int gpus = 1;
  int integrated = 0;         ///< CU_DEVICE_ATTRIBUTE_INTEGRATED
  int dma_buf = 1;            ///< memory can be exported
  int pcie = 1;               ///< and mapped over PCIe, by a driver that knows of that
  int version = 13000;        ///< what cuDriverGetVersion() says
  int gpu_direct = 1;         ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED
  int vmm = 1;                ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
  int writes_ordering = 100;  ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING
  int flush = 1;   ///< CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: 1 by the host, 2 by streams
  int uar_io = 0;  ///< memory can be registered as I/O memory
  int uar_plain = 1;      ///< what could not be registered as I/O memory can be as plain memory
  int same_address = 1;   ///< registered memory has one address on host and GPU
  int megabytes = 64;     ///< of each GPU
  int delay_us = 0;       ///< streams do their work on threads of their own, each piece so much later
  int first_mapping = 0;  ///< of every mapping the place and size of the first one are told, which is wrong
  int gone_is_error = 0;  ///< a copy to or from no memory is refused, as a real driver does
};

const Settings& Get();
void Set(const std::string& text);  ///< aborts on a name or a number that it does not know

/// Counts a call of a function, and says whether it shall fail and how; 0: not.
///
/// @param gives_back  as FailAnyCall() means it
int Failure(const char* function, bool gives_back = false);

/// Ends the program: it does what no program may do to the driver.
[[noreturn]] void Abort(const char* function, const std::string& misuse);

}  // namespace fake_cuda
