#include <algorithm>
#include <cstddef>

#include "endpoint/endpoint_impl.hpp"
#include "memory/region_store.hpp"
#include "queue/queue_chunk.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/endian.hpp"

/// Views of an endpoint's queues for kernels.
namespace warpverbs::inline v0_2::host {

device::QueueView Endpoint::Impl::View() const {
  const bool staged = doorbell_.mode == DoorbellMode::kHostPosts;
  const bool cpu_rings = !gpu_ && doorbell_.mode == DoorbellMode::kGpu;
  const bool combines = cpu_rings && uar_->mapping() == arch::Mmio::kWriteCombining;
  return {
      .sq = staged ? staging() : At<uint8_t>(layout_.sq),
      .doorbell = doorbell_.mode == DoorbellMode::kGpu ? doorbell_.doorbell : &host_words().doorbell,
      .dbrec = staged ? nullptr : At<uint32_t>(layout_.qp_dbr + offsetof(mlx5::QpDbr, send)),
      .cqe = At<uint8_t>(completions_ ? layout_.control + offsetof(device::QueueControl, cqe) : layout_.cqes),
      .control = At<device::QueueControl>(layout_.control),
      .qpn_be = mlx5::ToBe32(qpn() << 8).raw,
      .depth = sizes_.depth,
      .max_message = 1u << std::min(device_.capabilities().log_max_message, 30u),
      .sink_lkey_be = mlx5::ToBe32(memory_.sink_lkey()).raw,
      .flags = (completions_ ? device::kSharedCq : 0u) | (dumps_after_read() ? device::kDumpAfterRead : 0u) |
               (ReleaseScope() == arch::Scope::kSystem ? device::kNeedsSystemScope : 0u) |
               (combines ? device::kWriteCombining : 0u) | (config_.contended ? device::kContended : 0u),
      .cq_depth = has_own_ring() ? sizes_.cq_depth : 1};
}

device::ReceiveQueueView Endpoint::Impl::ReceiveView() const {
  if (!receive_cq_) {
    throw Error("view", "the receive queue of QP " + std::to_string(qpn()), "it has none",
                "Create the endpoint with a receive_depth");
  }
  return {.rq = At<uint8_t>(layout_.rq),
          .dbrec = At<uint32_t>(layout_.qp_dbr + offsetof(mlx5::QpDbr, receive)),
          .cq = {.cqe = At<uint8_t>(layout_.receive_cqes),
                 .dbrec = At<uint32_t>(layout_.receive_cq_dbr + offsetof(mlx5::CqDbr, consumer_index)),
                 .depth = sizes_.receive_cq_depth},
          .state = At<uint64_t>(layout_.receive_state),
          .depth = sizes_.receive_depth,
          .stride = sizes_.receive_stride,
          .regions = regions_,
          .first_cqe = first_receive_cqe_,
          .flags = ReleaseScope() == arch::Scope::kSystem ? device::kNeedsSystemScope : 0u};
}

device::CqView Endpoint::Impl::CompletionView() const {
  if (completions_) return completions_->ring().control().cq;
  if (!has_own_ring()) {
    throw Error("view", "the completions of QP " + std::to_string(qpn()) + " as a ring", "they are collapsed",
                "Create the endpoint with cq_mode = CqMode::kRing");
  }
  return {.cqe = At<uint8_t>(layout_.cqes),
          .dbrec = At<uint32_t>(layout_.cq_dbr + offsetof(mlx5::CqDbr, consumer_index)),
          .depth = sizes_.cq_depth};
}

void Endpoint::Impl::AllowRegions(std::span<const MemoryView> local, std::span<const MemoryView> remote) {
  // Dedicated pages, even with a pool: the pool may be destroyed by now.
  if (!region_store_) region_store_ = OwnHostMemory(gpu_ ? &*gpu_ : nullptr, sizeof(RegionStore));
  auto& store = *reinterpret_cast<RegionStore*>(region_store_.get());
  store.Allow(local, remote);
  regions_ = &store.table;
  memory_.Store(layout_.control + offsetof(device::QueueControl, regions),
                reinterpret_cast<uint64_t>(regions_));
}

}  // namespace warpverbs::inline v0_2::host
