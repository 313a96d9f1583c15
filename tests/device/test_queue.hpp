#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::inline v0_2::device {

inline constexpr mlx5::Be32 kTestKey{0x44332211};  ///< key of all memory, here and at the peer
inline constexpr uint8_t kVendorSyndrome = 0x77;   ///< vendor syndrome of every failed TestCqe

/// Contents of a CQE.
struct TestCqe {
  mlx5::CqeOpcode opcode = mlx5::CqeOpcode::kRequester;
  uint16_t wqe_counter = 0;
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  bool owner = false;
  mlx5::WqeOpcode wqe_opcode = mlx5::WqeOpcode::kRdmaWrite;
  uint32_t user_index = 0;
  uint32_t bytes = 0;
  mlx5::Be32 imm = {};
};

/// Writes a CQE as a NIC does: the last 8 bytes last.
void WriteCqe(mlx5::Cqe64& cqe, const TestCqe& content);

/// A ring of CQEs in ordinary memory with the NIC's side of it. It may start at any index.
class TestCq {
 public:
  explicit TestCq(uint32_t depth, uint32_t start = 0);

  CqView View();

  /// Writes the next CQE and sets its owner bit.
  void Push(TestCqe content);

  uint32_t dbrec = 0;

 private:
  std::mutex mutex_;  // serialises the NICs of several queues
  std::vector<mlx5::Cqe64> cqes_;
  uint32_t next_;
};

class TestQueue;

/// A ring of CQEs that several queues share. The constructor of a TestQueue adds it.
class TestRing {
 public:
  explicit TestRing(uint32_t depth, uint32_t start = 0);

  uint32_t Add(QueueControl& queue);

  TestCq cq;
  CompletionRingControl control;

 private:
  QueueControl* queues_[8] = {};
  uint32_t count_ = 0;
};

/// A send queue in ordinary memory with the host library's layout. It may start at any index.
class TestQueue {
 public:
  static constexpr uint32_t kQpn = 0x123456;

  /// @param completions  nullptr: the CQ is collapsed
  explicit TestQueue(uint32_t depth, uint32_t start = 0, TestRing* completions = nullptr);
  /// @param own  ring of this queue alone
  TestQueue(uint32_t depth, uint32_t start, TestCq* own);

  QueueView View();

  /// Writes a completion to the CQ that the posters poll.
  void Complete(TestCqe content);

  std::vector<mlx5::Wqebb> ring;
  mlx5::Cqe64 cqe;
  uint32_t dbrec = 0;
  uint64_t doorbell = 0;  ///< 0 until a poster rings: no doorbell has queue pair number 0
  uint64_t host_error = 0;
  QueueControl control;
  uint32_t max_message = 1 << 30;
  uint32_t flags = 0;

 private:
  TestRing* completions_;
  TestCq* own_ = nullptr;
  uint32_t user_index_ = 0;
};

/// Returns the view for posters of a kind, as the host makes it for them.
template <Sharing S>
QueueView ViewFor(TestQueue& queue) {
  QueueView view = queue.View();
  if constexpr (std::is_same_v<S, Contended>) view.flags |= kContended;
  return view;
}

/// Returns the end of the queue of posters of a kind: reserved << 32 | published.
template <Sharing S>
uint64_t EndFor(const TestQueue& queue) {
  if constexpr (!std::is_same_v<S, Contended>) return queue.control.tail;
  return queue.control.tail >> 32 << 32 | static_cast<uint32_t>(queue.control.ready);
}

/// Memory descriptors of an object that serves as local and as remote memory.
template <class T>
LocalMemory Local(T& object) {
  return {reinterpret_cast<uint64_t>(&object), sizeof object, kTestKey};
}
template <class T>
RemoteMemory Remote(T& object) {
  return {reinterpret_cast<uint64_t>(&object), kTestKey};
}

}  // namespace warpverbs::inline v0_2::device
