#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
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

/// Watches the doorbells of queues, on a thread of the processor, until destruction.
///
/// A doorbell names the low 16 bits of an index, so two of them can be compared only if fewer than 2^15 WQEs
/// were rung between the looks. One doorbell covers a few quarters of the queue at most, and no GPU rings for
/// more than 3 WQEs each nanosecond. After a longer time, in which this thread did not run, nothing is
/// judged.
class DoorbellWatcher {
 public:
  explicit DoorbellWatcher(std::vector<const uint64_t*> doorbells)
      : doorbells_(std::move(doorbells)), thread_([this](const std::stop_token& stop) { Watch(stop); }) {}

  /// Stops, and returns how many doorbells named an older WQE than the one before.
  uint64_t Backwards() {
    thread_.request_stop();
    thread_.join();
    return backwards_;
  }
  uint64_t seen() const { return seen_; }          ///< doorbells seen; after Backwards()
  uint64_t unjudged() const { return unjudged_; }  ///< those that came after too long a time

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::nanoseconds kLongest{4'000};
  struct Look {
    uint64_t doorbell = 0;
    Clock::time_point before{};
  };

  void Watch(const std::stop_token& stop) {
    std::vector<Look> last(doorbells_.size());
    while (!stop.stop_requested()) {
      for (size_t i = 0; i < last.size(); ++i) {
        const Clock::time_point before = Clock::now();
        const uint64_t now =
            std::atomic_ref(const_cast<uint64_t&>(*doorbells_[i])).load(std::memory_order_acquire);
        const Look was = std::exchange(last[i], {now, before});
        if (now == was.doorbell) continue;
        ++seen_;
        if (was.doorbell == 0) continue;
        const bool judged = Clock::now() - was.before <= kLongest;
        if (!judged) ++unjudged_;
        if (judged && static_cast<int16_t>(IndexOf(now) - IndexOf(was.doorbell)) < 0) ++backwards_;
      }
    }
  }
  static uint16_t IndexOf(uint64_t doorbell) {
    return static_cast<uint16_t>(mlx5::FromBe(mlx5::Be32{static_cast<uint32_t>(doorbell)}) >> 8);
  }

  std::vector<const uint64_t*> doorbells_;
  uint64_t backwards_ = 0, seen_ = 0, unjudged_ = 0;
  std::jthread thread_;
};

/// Send queues without a NIC: in GPU memory, except for the doorbells, which are words of mapped host memory.
///
/// @param cq_depth  CQEs of each queue: 1, collapsed, or kDepth, a ring
/// @param flags   QueueFlags: kContended for such posters
/// @param offset  bytes from the start of their allocations to the first queue and its doorbell. Near and far
///                slices of the L2 cache differ by up to a quarter of the cost of a post
class Queues {
 public:
  Queues(uint32_t count, bool record, uint32_t cq_depth, size_t offset, uint32_t flags = 0)
      : count_(count), doorbells_offset_(offset % kMaxOffset) {
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
                        .flags = flags,
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
  std::vector<const uint64_t*> doorbells() const {  ///< pointers to host memory
    std::vector<const uint64_t*> all;
    for (uint32_t i = 0; i < count_; ++i)
      all.push_back(reinterpret_cast<const uint64_t*>(doorbells_ + doorbells_offset_ + kLine * i));
    return all;
  }
  const Peer* peers() const { return peers_; }  ///< pointer to GPU memory

  /// Returns whether the last round of every queue holds the posted WQEs, and the record and the last
  /// doorbell belong to the last of `wqes`.
  ///
  /// @param part_bytes  0, or the size of the parts of longer writes, of which queue i has each i-th
  bool Verify(uint64_t wqes, uint64_t part_bytes = 0) const {
    return std::all_of(views_.begin(), views_.end(), [&](const device::QueueView& view) {
      const auto offset = part_bytes * static_cast<uint64_t>(&view - views_.data());
      return VerifyOne(view, wqes, offset, part_bytes == 0 ? kBytes : part_bytes);
    });
  }

 private:
  static constexpr size_t kLine = 128;
  static constexpr size_t kMaxOffset = 16384;

  static bool VerifyOne(const device::QueueView& view, uint64_t wqes, uint64_t offset, uint64_t bytes) {
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
                        mlx5::FromBe(wqe.remote.address) == kRemote + offset &&
                        wqe.remote.rkey.raw == kRkeyBe && mlx5::FromBe(wqe.local.bytes) == bytes &&
                        wqe.local.lkey.raw == kLkeyBe && mlx5::FromBe(wqe.local.address) == kLocal + offset;
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
  size_t doorbells_offset_;
  std::vector<device::QueueView> views_;
  Peer* peers_ = nullptr;
};

}  // namespace warpverbs::bench
