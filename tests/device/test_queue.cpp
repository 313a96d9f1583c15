#include "test_queue.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstring>

namespace warpverbs::inline v0_2::device {
namespace {

/// Returns the CQE of a queue that starts at `start`: the WQE before `start` is complete.
mlx5::Cqe64 FreshCqe(uint32_t start) {
  mlx5::Cqe64 cqe;
  std::memset(&cqe, 0xff, sizeof cqe);
  cqe.wqe_counter = mlx5::ToBe16(static_cast<uint16_t>(start - 1));
  return cqe;
}

}  // namespace

void WriteCqe(mlx5::Cqe64& cqe, const TestCqe& content) {
  mlx5::ErrorCqe64 image{};
  if (content.syndrome != mlx5::Syndrome::kNone) {
    image.syndrome = static_cast<uint8_t>(content.syndrome);
    image.vendor_syndrome = kVendorSyndrome;
  }
  image.sop_qpn = mlx5::ToBe32(static_cast<uint32_t>(content.wqe_opcode) << 24 | TestQueue::kQpn);
  image.wqe_counter = mlx5::ToBe16(content.wqe_counter);
  image.op_own = static_cast<uint8_t>(static_cast<uint32_t>(content.opcode) << 4 | content.owner);
  const auto words = std::bit_cast<std::array<uint64_t, 8>>(image);
  std::atomic_ref(cqe.srqn_uidx.raw).store(mlx5::ToBe32(content.user_index).raw, std::memory_order_relaxed);
  std::atomic_ref(cqe.imm.raw).store(content.imm.raw, std::memory_order_relaxed);
  if (content.syndrome == mlx5::Syndrome::kNone) {
    std::atomic_ref(cqe.byte_count.raw).store(mlx5::ToBe32(content.bytes).raw, std::memory_order_relaxed);
  }
  auto* const target = reinterpret_cast<uint64_t*>(&cqe);
  std::atomic_ref(target[6]).store(words[6], std::memory_order_relaxed);
  std::atomic_ref(target[7]).store(words[7], std::memory_order_release);
}

TestCq::TestCq(uint32_t depth, uint32_t start) : cqes_(depth), next_(start) {
  for (uint32_t ahead = 0; ahead < depth; ++ahead) {
    mlx5::Cqe64& cqe = cqes_[(start + ahead) % depth];
    std::memset(&cqe, 0xff, sizeof cqe);
    const uint32_t round_before = start + ahead - depth;
    if (start != 0) {
      WriteCqe(cqe,
               {.wqe_counter = static_cast<uint16_t>(round_before), .owner = (round_before & depth) != 0});
    }
  }
}

CqView TestCq::View() {
  return {reinterpret_cast<const uint8_t*>(cqes_.data()), &dbrec, static_cast<uint32_t>(cqes_.size())};
}

void TestCq::Push(TestCqe content) {
  const std::scoped_lock lock(mutex_);
  const auto depth = static_cast<uint32_t>(cqes_.size());
  content.owner = (next_ & depth) != 0;
  WriteCqe(cqes_[next_++ % depth], content);
}

TestRing::TestRing(uint32_t depth, uint32_t start)
    : cq(depth, start), control{.consumer = start, .cq = cq.View(), .queues = queues_} {}

uint32_t TestRing::Add(QueueControl& queue) {
  queues_[count_] = &queue;
  return count_++;
}

TestQueue::TestQueue(uint32_t depth, uint32_t start, TestCq* own)
    : TestQueue(depth, start, static_cast<TestRing*>(nullptr)) {
  own_ = own;
}

TestQueue::TestQueue(uint32_t depth, uint32_t start, TestRing* completions)
    : ring(depth),
      cqe(FreshCqe(start)),
      control{.tail = uint64_t{start} << 32 | start,
              .ready = start,
              .error = 0,
              .host_error = &host_error,
              .ring = nullptr,
              .regions = nullptr,
              .sink = 0,
              .cqe = {},
              .cursor = 0},
      completions_(completions) {
  std::memcpy(control.cqe, &cqe, sizeof cqe);
  if (completions == nullptr) return;
  control.ring = &completions->control;
  user_index_ = completions->Add(control);
  flags = kSharedCq;
}

QueueView TestQueue::View() {
  const auto* const collapsed = reinterpret_cast<const uint8_t*>(&cqe);
  return {.sq = ring.front().bytes,
          .doorbell = &doorbell,
          .dbrec = &dbrec,
          .cqe = own_ != nullptr           ? own_->View().cqe
                 : completions_ == nullptr ? collapsed
                                           : control.cqe,
          .control = &control,
          .qpn_be = mlx5::ToBe32(kQpn << 8).raw,
          .depth = static_cast<uint32_t>(ring.size()),
          .max_message = max_message,
          .sink_lkey_be = kTestKey.raw,
          .flags = flags,
          .cq_depth = own_ != nullptr ? own_->View().depth : 1};
}

void TestQueue::Complete(TestCqe content) {
  content.user_index = user_index_;
  if (own_ != nullptr) {
    own_->Push(content);
  } else if (completions_ == nullptr) {
    WriteCqe(cqe, content);
  } else {
    completions_->cq.Push(content);
  }
}

}  // namespace warpverbs::inline v0_2::device
