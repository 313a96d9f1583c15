#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/device/wqe.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::device {

/// A send queue in ordinary memory, laid out as a host would, that may start at any index.
class TestQueue {
 public:
  static constexpr uint32_t kQpn = 0x123456;

  explicit TestQueue(uint32_t depth, uint32_t start = 0);

  QueueView View();

  std::vector<mlx5::Wqebb> ring;
  mlx5::Cqe64 cqe;
  uint32_t dbrec = 0;
  uint64_t doorbell = 0;  ///< 0 until it is rung: no doorbell has queue pair number 0
  QueueControl control;
};

/// What a CQE is to say.
struct TestCqe {
  mlx5::CqeOpcode opcode = mlx5::CqeOpcode::kRequester;
  uint16_t wqe_counter = 0;
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  bool owner = false;
};

inline constexpr uint8_t kVendorSyndrome = 0x77;  ///< of every failed TestCqe

/// Writes a CQE as a NIC does, its last 8 bytes last.
void WriteCqe(mlx5::Cqe64& cqe, const TestCqe& content);

/// The NIC of one TestQueue: acts on the doorbell, reads the WQEs, carries out writes and reports them.
///
/// It has one rule more than a NIC: the memory keys are kKey. What breaks a rule is kept in violation().
class TestNic {
 public:
  static constexpr mlx5::Be32 kKey{0x44332211};

  explicit TestNic(TestQueue& queue, uint32_t start = 0) : queue_(queue), next_(start), rung_(start) {}

  /// Fails the WQE of this index when it comes to it, and flushes those that follow.
  void FailAt(uint32_t index, mlx5::Syndrome syndrome);

  /// Executes the next WQE; false if none is rung for.
  bool Step();

  uint32_t next() const { return next_; }
  const std::string& violation() const { return violation_; }

 private:
  void ReadDoorbell();
  void Execute(const uint8_t* wqe);
  void Write(const uint8_t* wqe, const mlx5::CtrlSegment& control);
  void Expect(bool condition, const char* rule);

  TestQueue& queue_;
  uint32_t next_;
  uint32_t rung_;
  uint64_t doorbell_ = 0;
  bool failing_ = false;
  uint32_t fail_at_ = 0;
  mlx5::Syndrome fail_with_{};
  std::string violation_;
};

/// Memory of both sides in one, with the keys that TestNic knows.
template <class T>
LocalMemory Local(T& object) {
  return {reinterpret_cast<uint64_t>(&object), sizeof object, TestNic::kKey};
}
template <class T>
RemoteMemory Remote(T& object) {
  return {reinterpret_cast<uint64_t>(&object), TestNic::kKey};
}

}  // namespace warpverbs::device
