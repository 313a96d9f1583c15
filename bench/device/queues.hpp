#pragma once

#include <cstring>
#include <vector>

#include "check.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/endian.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::bench {

/// What every WQE of the benchmarks says.
inline constexpr uint32_t kQpn = 0x123456, kRkeyBe = 0x44332211, kLkeyBe = 0x88776655, kBytes = 8;
inline constexpr uint64_t kRemote = 0x1122334455667788, kLocal = 0x99aabbccddeeff00;
inline constexpr uint32_t kDepth = 32768;

/// Send queues that no NIC knows: all in GPU memory but the doorbells, which are words of mapped host memory.
///
/// @param offset  in bytes, where in their allocations the first queue and its doorbell lie: near and far
/// slices
///                of the L2 cache make up to a quarter of what a post costs
class Queues {
 public:
  Queues(uint32_t count, bool record, size_t offset) : count_(count) {
    Check(cudaMalloc(&memory_, kMaxOffset + kEach * count), "allocate queues");
    Check(cudaMemset(memory_, 0, kMaxOffset + kEach * count), "clear queues");
    Check(cudaHostAlloc(&doorbells_, kMaxOffset + kLine * count, cudaHostAllocMapped), "allocate doorbells");
    std::memset(doorbells_, 0, kMaxOffset + kLine * count);
    for (uint32_t i = 0; i < count; ++i) {
      uint8_t* const base = memory_ + offset % kMaxOffset + kEach * i;
      uint8_t* const cqe = base + kDepth * mlx5::kWqebbBytes;
      Check(cudaMemset(cqe, 0xff, sizeof(mlx5::Cqe64)), "fill a CQE");
      uint64_t* doorbell = nullptr;
      Check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&doorbell),
                                     doorbells_ + offset % kMaxOffset + kLine * i, 0),
            "map doorbells");
      views_.push_back({.sq = base,
                        .doorbell = doorbell,
                        .dbrec = record ? reinterpret_cast<uint32_t*>(cqe + kLine) : nullptr,
                        .cqe = cqe,
                        .control = reinterpret_cast<device::QueueControl*>(cqe + 2 * kLine),
                        .qpn_be = mlx5::ToBe32(kQpn << 8).raw,
                        .depth = kDepth,
                        .max_message = 1 << 30,
                        .sink_lkey_be = kLkeyBe,
                        .flags = 0});
    }
    const size_t bytes = count * sizeof(device::QueueView);
    Check(cudaMalloc(&device_views_, bytes), "allocate views");
    Check(cudaMemcpy(device_views_, views_.data(), bytes, cudaMemcpyDefault), "write views");
    Check(cudaDeviceSynchronize(), "clear queues");
  }
  ~Queues() {
    cudaFree(device_views_);
    cudaFree(memory_);
    cudaFreeHost(doorbells_);
  }
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  const std::vector<device::QueueView>& views() const { return views_; }
  const device::QueueView* device_views() const { return device_views_; }

  /// Whether the last round of every queue holds what was posted, and the record and the last doorbell are
  /// those of the last of `wqes`.
  ///
  /// @param posts  of each thread
  bool Verify(uint64_t wqes, uint32_t posts) const {
    return std::all_of(views_.begin(), views_.end(),
                       [&](const auto& view) { return VerifyOne(view, wqes, posts); });
  }

 private:
  static constexpr size_t kLine = 128;
  static constexpr size_t kEach = kDepth * mlx5::kWqebbBytes + 4096;
  static constexpr size_t kMaxOffset = 16384;

  static bool VerifyOne(const device::QueueView& view, uint64_t wqes, uint32_t posts) {
    std::vector<mlx5::CtrlSegment> ring(kDepth * 4);
    Check(cudaMemcpy(ring.data(), view.sq, kDepth * mlx5::kWqebbBytes, cudaMemcpyDefault), "read WQEs");
    for (uint64_t index = wqes - std::min<uint64_t>(wqes, kDepth); index < wqes; ++index) {
      struct {
        mlx5::CtrlSegment control;
        mlx5::RemoteAddressSegment remote;
        mlx5::DataSegment local;
      } wqe;
      std::memcpy(&wqe, &ring[index % kDepth * 4], sizeof wqe);
      // Posters write one word after another, each at the same place here and there.
      const uint64_t offset = mlx5::FromBe(wqe.local.address) - kLocal;
      const bool good = mlx5::FromBe(wqe.control.opmod_index_opcode) ==
                            (static_cast<uint32_t>(index & 0xffff) << 8 |
                             static_cast<uint32_t>(mlx5::WqeOpcode::kRdmaWrite)) &&
                        mlx5::FromBe(wqe.control.qpn_ds) == (kQpn << 8 | 3) && wqe.control.imm.raw == 0 &&
                        mlx5::FromBe(wqe.remote.address) - kRemote == offset &&
                        wqe.remote.rkey.raw == kRkeyBe && mlx5::FromBe(wqe.local.bytes) == kBytes &&
                        wqe.local.lkey.raw == kLkeyBe && offset % kBytes == 0 && offset / kBytes < posts;
      if (!good) return false;
    }
    uint64_t doorbell = 0;
    Check(cudaMemcpy(&doorbell, view.doorbell, sizeof doorbell, cudaMemcpyDefault), "read a doorbell");
    if (std::memcmp(&doorbell, &ring[(wqes - 1) % kDepth * 4], sizeof doorbell) != 0) return false;
    if (view.dbrec == nullptr) return true;
    uint32_t record = 0;
    Check(cudaMemcpy(&record, view.dbrec, sizeof record, cudaMemcpyDefault), "read a record");
    return record == mlx5::ToBe32(static_cast<uint32_t>(wqes & 0xffff)).raw;
  }

  uint32_t count_;
  uint8_t* memory_ = nullptr;
  uint8_t* doorbells_ = nullptr;
  std::vector<device::QueueView> views_;
  device::QueueView* device_views_ = nullptr;
};

}  // namespace warpverbs::bench
