#pragma once

// The proxy alone: the headers of the other backend, by which kernels post themselves, need DOCA's.
#define NCCL_GIN_GDAKI_ENABLE 0
#include <nccl.h>
#include <nccl_device.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ranks.hpp"

namespace stacks {

/// Ends the process with a message if a call of NCCL failed.
inline void Check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s (%s)\n", what, ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}

/// NCCL's device communicator of two ranks, with memory that the ranks' kernels put into.
class GinRank {
 public:
  static constexpr int kSignals = 3;

  /// @param id_file  does not exist before
  /// @param bytes    of the memory, which is the same on both ranks
  GinRank(int rank, const std::string& id_file, size_t bytes) : rank_(rank) {
    UseGpu(rank);
    // NCCL takes the two for different machines: otherwise it goes around the network.
    setenv("NCCL_HOSTID", ("host-" + std::to_string(rank)).c_str(), 1);
    ncclUniqueId id{};
    if (rank == 0) Check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    id = Share(rank, id_file, id);
    Check(ncclCommInitRank(&comm_, 2, id, rank), "ncclCommInitRank");
    Check(ncclMemAlloc(&memory_, bytes), "ncclMemAlloc");
    Check(cudaMemset(memory_, 0, bytes), "cudaMemset");
    Check(ncclCommWindowRegister(comm_, memory_, bytes, &window_, NCCL_WIN_DEFAULT),
          "ncclCommWindowRegister");
    ncclDevCommRequirements requirements;
    std::memset(&requirements, 0, sizeof requirements);
    requirements.railGinBarrierCount = 1;
    requirements.ginForceEnable = true;
    requirements.ginContextCount = 1;
    requirements.ginSignalCount = kSignals;
    Check(ncclDevCommCreate(comm_, &requirements, &device_), "ncclDevCommCreate");
  }
  ~GinRank() {
    Check(ncclDevCommDestroy(comm_, &device_), "ncclDevCommDestroy");
    Check(ncclCommWindowDeregister(comm_, window_), "ncclCommWindowDeregister");
    Check(ncclMemFree(memory_), "ncclMemFree");
    Check(ncclCommFinalize(comm_), "ncclCommFinalize");
    Check(ncclCommDestroy(comm_), "ncclCommDestroy");
  }
  GinRank(const GinRank&) = delete;
  GinRank& operator=(const GinRank&) = delete;

  int rank() const { return rank_; }
  int peer() const { return 1 - rank_; }
  uint64_t* memory() const { return static_cast<uint64_t*>(memory_); }
  ncclWindow_t window() const { return window_; }
  const ncclDevComm& device() const { return device_; }

  /// The proxy, a thread of NCCL, reports errors by the communicator only.
  void CheckProxy() const {
    ncclResult_t error = ncclSuccess;
    Check(ncclCommGetAsyncError(comm_, &error), "ncclCommGetAsyncError");
    Check(error, "NCCL's proxy");
  }

 private:
  const int rank_;
  ncclComm_t comm_ = nullptr;
  void* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
  ncclDevComm device_{};
};

/// Lets both ranks' kernels pass it only together.
static __global__ void GinBarrier(ncclDevComm comm) {
  ncclGin gin(comm, 0);
  ncclGinBarrierSession<ncclCoopCta> session(ncclCoopCta(), gin, ncclTeamTagRail(), 0);
  session.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::Relaxed);
}

}  // namespace stacks
