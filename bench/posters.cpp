#include "posters.hpp"

#include <array>
#include <stdexcept>
#include <thread>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::bench {
namespace {

using arch::Cpu;

constexpr uint32_t kTogether = 16;  ///< writes of a batch; they share a doorbell

void Demand(bool ok) {
  if (!ok)
    throw std::runtime_error(
        "Cannot post to the benchmark's queue: the NIC did not complete an earlier write");
}

class ByLibmlx5 : public Poster {
 public:
  explicit ByLibmlx5(VerbsQueue& queue) : queue_(queue) {}

  void Drain() final {
    queue_.RingNic();
    for (uint32_t done = 0; done < VerbsQueue::kDepth;) {
      ibv_wc completion;
      const int polled = ibv_poll_cq(queue_.cq(), 1, &completion);
      Demand(polled == 0 || (polled == 1 && completion.status == IBV_WC_SUCCESS));
      done += static_cast<uint32_t>(polled);
      if (polled == 0) std::this_thread::yield();  // a software NIC may need this processor
    }
  }

 protected:
  VerbsQueue& queue_;
};

/// Posts `together` writes by one call.
template <uint32_t together>
class IbvPostSend : public ByLibmlx5 {
 public:
  using ByLibmlx5::ByLibmlx5;

  void PostBatch() final {
    ibv_sge sge = queue_.sge();
    std::array<ibv_send_wr, together> requests{};
    for (uint32_t i = 0; i < together; ++i) {
      requests[i].next = i + 1 < together ? &requests[i + 1] : nullptr;
      requests[i].sg_list = &sge;
      requests[i].num_sge = 1;
      requests[i].opcode = IBV_WR_RDMA_WRITE;
      requests[i].send_flags = IBV_SEND_SIGNALED;
      requests[i].wr.rdma = {.remote_addr = queue_.remote_address(), .rkey = queue_.rkey()};
    }
    for (uint32_t i = 0; i < VerbsQueue::kDepth; i += together) {
      ibv_send_wr* bad = nullptr;
      Demand(ibv_post_send(queue_.qp(), requests.data(), &bad) == 0);
    }
  }
};

template <uint32_t together>
class IbvWrRdmaWrite : public ByLibmlx5 {
 public:
  using ByLibmlx5::ByLibmlx5;

  void PostBatch() final {
    ibv_qp_ex* const qp = queue_.ex();
    const ibv_sge sge = queue_.sge();
    const uint64_t remote_address = queue_.remote_address();
    const uint32_t rkey = queue_.rkey();
    qp->wr_flags = IBV_SEND_SIGNALED;
    for (uint32_t i = 0; i < VerbsQueue::kDepth; i += together) {
      ibv_wr_start(qp);
      for (uint32_t j = 0; j < together; ++j) {
        ibv_wr_rdma_write(qp, rkey, remote_address);
        ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
      }
      Demand(ibv_wr_complete(qp) == 0);
    }
  }
};

class ByWarpverbs : public Poster {
 public:
  explicit ByWarpverbs(VerbsQueue& queue) : queue_(queue), completions_(queue.CompletionView()) {}

  void Drain() final {
    queue_.RingNic();
    posted_ += VerbsQueue::kDepth;
    while (completions_.consumer_index() != posted_) {
      const device::Code code = completions_.PollCqOnce().code;
      Demand(code == device::Code::kOk || code == device::Code::kPending);
      if (code == device::Code::kPending) std::this_thread::yield();
    }
    completions_.UpdateCqDbrRecord();
  }

 protected:
  VerbsQueue& queue_;
  uint32_t posted_ = 0;

 private:
  device::CompletionRing<Cpu> completions_;
};

class LowLevel : public ByWarpverbs {
 public:
  using ByWarpverbs::ByWarpverbs;

  void PostBatch() final {
    const device::RawSendQueue<Cpu> ring(queue_.View(posted_));
    const device::RemoteMemory remote = queue_.Remote();
    const device::LocalMemory local = queue_.Local();
    for (uint32_t index = posted_; index != posted_ + VerbsQueue::kDepth; ++index) {
      const mlx5::Be64 doorbell = ring.PostWrite(index, remote, local);
      ring.UpdateSendDbrRecord(index + 1);
      ring.RingDoorbell(doorbell);
    }
  }
};

template <class Sharing>
class Post : public ByWarpverbs {
 public:
  using ByWarpverbs::ByWarpverbs;

  void PostBatch() final {
    device::SendQueue<Cpu, Sharing> queue(queue_.View(posted_));
    const device::RemoteMemory remote = queue_.Remote();
    const device::LocalMemory local = queue_.Local();
    for (uint32_t i = 0; i < VerbsQueue::kDepth; ++i)
      Demand(queue.Post(device::Write(remote, local)).status.ok());
  }
};

/// Posts and counts.
template <class Sharing>
class CountedPost : public ByWarpverbs {
 public:
  using ByWarpverbs::ByWarpverbs;

  void PostBatch() final {
    device::SendQueue<Cpu, Sharing, device::Thread, device::Counted> queue(queue_.View(posted_));
    const device::RemoteMemory remote = queue_.Remote();
    const device::LocalMemory local = queue_.Local();
    for (uint32_t i = 0; i < VerbsQueue::kDepth; ++i)
      Demand(queue.Post(device::Write(remote, local)).status.ok());
  }
};

template <class Sharing>
class BatchOfSixteen : public ByWarpverbs {
 public:
  using ByWarpverbs::ByWarpverbs;

  void PostBatch() final {
    device::SendQueue<Cpu, Sharing> queue(queue_.View(posted_));
    const device::RemoteMemory remote = queue_.Remote();
    const device::LocalMemory local = queue_.Local();
    for (uint32_t i = 0; i < VerbsQueue::kDepth; i += kTogether) {
      auto batch = queue.Begin(kTogether);
      for (uint32_t j = 0; j < kTogether; ++j) Demand(batch.Add(device::Write(remote, local)).status.ok());
      Demand(batch.Submit().status.ok());
    }
  }
};

template <class Kind>
std::unique_ptr<Poster> Make(VerbsQueue& queue) {
  return std::make_unique<Kind>(queue);
}

constexpr PosterKind kKinds[] = {
    {"libmlx5: ibv_post_send", Make<IbvPostSend<1>>},
    {"libmlx5: ibv_wr_rdma_write", Make<IbvWrRdmaWrite<1>>},
    {"warpverbs: PostWrite, UpdateSendDbrRecord, RingDoorbell", Make<LowLevel>},
    {"warpverbs: SendQueue<Exclusive>::Post", Make<Post<device::Exclusive>>},
    {"warpverbs: SendQueue<Shared>::Post", Make<Post<device::Shared>>},
    {"warpverbs: SendQueue<Exclusive>::Post, counted", Make<CountedPost<device::Exclusive>>},
    {"warpverbs: SendQueue<Shared>::Post, counted", Make<CountedPost<device::Shared>>},
    {"libmlx5: ibv_post_send of 16", Make<IbvPostSend<kTogether>>},
    {"libmlx5: 16 of ibv_wr_rdma_write", Make<IbvWrRdmaWrite<kTogether>>},
    {"warpverbs: SendQueue<Exclusive>::Batch of 16", Make<BatchOfSixteen<device::Exclusive>>},
    {"warpverbs: SendQueue<Shared>::Batch of 16", Make<BatchOfSixteen<device::Shared>>},
};

}  // namespace

std::span<const PosterKind> PosterKinds() { return kKinds; }

}  // namespace warpverbs::bench
