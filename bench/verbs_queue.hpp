#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstdint>

#include "host/device/handle.hpp"
#include "warpverbs/device/operations.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::bench {

/// A queue pair of libmlx5, connected to itself, that libmlx5 and this library can both post to.
///
/// Holds doorbells back until RingNic(): while posts are timed the NIC is idle, so a software NIC neither
/// takes the processor nor fights for the queue's cache lines. Only one of the two libraries may post to a
/// queue, because each keeps its own indices.
class VerbsQueue {
 public:
  static constexpr uint32_t kDepth = 256;

  explicit VerbsQueue(const host::Device& device);
  ~VerbsQueue();
  VerbsQueue(const VerbsQueue&) = delete;
  VerbsQueue& operator=(const VerbsQueue&) = delete;

  ibv_qp* qp() const { return qp_.get(); }
  ibv_qp_ex* ex() const { return ibv_qp_to_qp_ex(qp_.get()); }
  ibv_cq* cq() const { return cq_.get(); }

  /// Describes the same send queue to this library. The newest CQE serves as the only one of a collapsed CQ.
  ///
  /// @param posted  number of WQEs posted so far; all are complete
  device::QueueView View(uint32_t posted);
  device::CqView CompletionView() const;

  /// Returns the source of every benchmark's writes: 8 bytes.
  ibv_sge sge() const;
  uint64_t remote_address() const;
  uint32_t rkey() const;
  device::LocalMemory Local() const;
  device::RemoteMemory Remote() const;

  /// Passes the last doorbell on to the NIC.
  void RingNic();

 private:
  void Connect(const host::Device& device);
  void HoldDoorbellsBack();
  volatile uint64_t* Doorbell(uint8_t* page) const;

  host::HostPages memory_;
  host::MemoryRegion region_;
  host::Handle<ibv_cq, ibv_destroy_cq> cq_;
  host::Handle<ibv_qp, ibv_destroy_qp> qp_;
  mlx5dv_qp queue_{};
  mlx5dv_cq completions_{};
  device::QueueControl control_{};
  uint8_t* page_ = nullptr;  ///< ordinary memory at the address that libmlx5 rings
  uint8_t* nic_ = nullptr;   ///< the NIC's registers, at another address meanwhile
};

}  // namespace warpverbs::bench
