#pragma once

#include <cstring>
#include <vector>

#include "check.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/endian.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::bench {

/// Contents of every WQE of the benchmarks.
inline constexpr uint32_t kQpn = 0x123456, kRkeyBe = 0x44332211, kLkeyBe = 0x88776655, kBytes = 8;
inline constexpr uint64_t kRemote = 0x1122334455667788, kLocal = 0x99aabbccddeeff00;
inline constexpr uint32_t kDepth = 32768;

/// A poster's queue, and the source and target of its writes.
struct Peer {
  device::QueueView view;
  device::RemoteMemory remote;
  device::LocalMemory local;
};

/// Send queues without a NIC: in GPU memory, except for the doorbells, which are words of mapped host memory.
///
/// @param cq_depth  CQEs of each queue: 1, collapsed, or kDepth, a ring
/// @param offset  bytes from the start of their allocations to the first queue and its doorbell. Near and far
///                slices of the L2 cache differ by up to a quarter of the cost of a post
class Queues {
 public:
  Queues(uint32_t count, bool record, uint32_t cq_depth, size_t offset) : count_(count) {
    // The same places in both modes, so that they can be compared.
    constexpr size_t cqes = kDepth * sizeof(mlx5::Cqe64) + kLine;
    constexpr size_t each = kDepth * mlx5::kWqebbBytes + cqes + 4096;
    Check(cudaMalloc(&memory_, kMaxOffset + each * count), "allocate queues");
    Check(cudaMemset(memory_, 0, kMaxOffset + each * count), "clear queues");
    Check(cudaHostAlloc(&doorbells_, kMaxOffset + kLine * count, cudaHostAllocMapped), "allocate doorbells");
    std::memset(doorbells_, 0, kMaxOffset + kLine * count);
    for (uint32_t i = 0; i < count; ++i) {
      uint8_t* const base = memory_ + offset % kMaxOffset + each * i;
      uint8_t* const cqe = base + kDepth * mlx5::kWqebbBytes;
      Check(cudaMemset(cqe, 0xff, cq_depth * sizeof(mlx5::Cqe64)), "fill CQEs");
      uint64_t* doorbell = nullptr;
      Check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&doorbell),
                                     doorbells_ + offset % kMaxOffset + kLine * i, 0),
            "map doorbells");
      views_.push_back({.sq = base,
                        .doorbell = doorbell,
                        .dbrec = record ? reinterpret_cast<uint32_t*>(cqe + cqes) : nullptr,
                        .cqe = cqe,
                        .control = reinterpret_cast<device::QueueControl*>(cqe + cqes + kLine),
                        .qpn_be = mlx5::ToBe32(kQpn << 8).raw,
                        .depth = kDepth,
                        .max_message = 1 << 30,
                        .sink_lkey_be = kLkeyBe,
                        .flags = 0,
                        .cq_depth = cq_depth});
    }
    std::vector<Peer> peers;
    for (const device::QueueView& view : views_)
      peers.push_back({view, {kRemote, mlx5::Be32{kRkeyBe}}, {kLocal, kBytes, mlx5::Be32{kLkeyBe}}});
    Check(cudaMalloc(&peers_, count * sizeof(Peer)), "allocate views");
    Check(cudaMemcpy(peers_, peers.data(), count * sizeof(Peer), cudaMemcpyDefault), "write views");
    Check(cudaDeviceSynchronize(), "clear queues");
  }
  ~Queues() {
    cudaFree(peers_);
    cudaFree(memory_);
    cudaFreeHost(doorbells_);
  }
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  const std::vector<device::QueueView>& views() const { return views_; }
  const Peer* peers() const { return peers_; }  ///< pointer to GPU memory

  /// Returns whether the last round of every queue holds the posted WQEs, and the record and the last
  /// doorbell belong to the last of `wqes`.
  bool Verify(uint64_t wqes) const {
    return std::all_of(views_.begin(), views_.end(), [&](const auto& view) { return VerifyOne(view, wqes); });
  }

 private:
  static constexpr size_t kLine = 128;
  static constexpr size_t kMaxOffset = 16384;

  static bool VerifyOne(const device::QueueView& view, uint64_t wqes) {
    std::vector<mlx5::CtrlSegment> ring(kDepth * 4);
    Check(cudaMemcpy(ring.data(), view.sq, kDepth * mlx5::kWqebbBytes, cudaMemcpyDefault), "read WQEs");
    for (uint64_t index = wqes - std::min<uint64_t>(wqes, kDepth); index < wqes; ++index) {
      struct {
        mlx5::CtrlSegment control;
        mlx5::RemoteAddressSegment remote;
        mlx5::DataSegment local;
      } wqe;
      std::memcpy(&wqe, &ring[index % kDepth * 4], sizeof wqe);
      const bool good = mlx5::FromBe(wqe.control.opmod_index_opcode) ==
                            (static_cast<uint32_t>(index & 0xffff) << 8 |
                             static_cast<uint32_t>(mlx5::WqeOpcode::kRdmaWrite)) &&
                        mlx5::FromBe(wqe.control.qpn_ds) == (kQpn << 8 | 3) && wqe.control.imm.raw == 0 &&
                        mlx5::FromBe(wqe.remote.address) == kRemote && wqe.remote.rkey.raw == kRkeyBe &&
                        mlx5::FromBe(wqe.local.bytes) == kBytes && wqe.local.lkey.raw == kLkeyBe &&
                        mlx5::FromBe(wqe.local.address) == kLocal;
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
  Peer* peers_ = nullptr;
};

}  // namespace warpverbs::bench
