#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "test_queue.hpp"

namespace warpverbs::inline v0_2::device {

/// Up to where a doorbell makes the NIC fetch.
enum class FetchUpTo {
  kDoorbell,  ///< its own WQE: one that is left unrung is never done
  kRecord,    ///< what the record says by then, as a ConnectX does
};

/// The NIC of one TestQueue: acts on the doorbell, reads the WQEs, carries them out and reports them.
///
/// It has one rule more than a NIC: the memory keys are kTestKey. What breaks a rule is kept in violation().
class TestNic {
 public:
  explicit TestNic(TestQueue& queue, uint32_t start = 0, FetchUpTo fetch = FetchUpTo::kDoorbell)
      : queue_(queue), fetch_(fetch), next_(start), rung_(start) {}

  /// Fails the WQE of this index when it comes to it, and flushes those that follow.
  void FailAt(uint32_t index, mlx5::Syndrome syndrome);

  /// Executes the next WQE; false if none is rung for.
  bool Step();

  uint32_t next() const { return next_; }            ///< slot of the WQE that is executed next
  uint32_t rung() const { return rung_; }            ///< everything below it may be executed
  uint32_t doorbells() const { return doorbells_; }  ///< seen so far
  const std::string& violation() const { return violation_; }
  const std::vector<std::string>& sent() const { return sent_; }         ///< the messages that left
  const std::vector<mlx5::WqeOpcode>& opcodes() const { return done_; }  ///< of what was executed

 private:
  void ReadDoorbell();
  void Execute();
  void CarryOut(mlx5::WqeOpcode opcode);
  std::string Gather(uint32_t first_segment);
  uint64_t Scatter(uint32_t first_segment, const char* from);
  void Atomic(mlx5::WqeOpcode opcode);
  template <class T>
  void AtomicOf(mlx5::WqeOpcode opcode);
  template <class Segment>
  Segment At(uint32_t segment) const;
  void Expect(bool condition, const char* rule);

  TestQueue& queue_;
  FetchUpTo fetch_;
  uint32_t next_;
  uint32_t rung_;
  uint64_t doorbell_ = 0;
  uint32_t doorbells_ = 0;
  bool failing_ = false;
  uint32_t fail_at_ = 0;
  mlx5::Syndrome fail_with_{};
  std::string violation_;
  std::vector<std::string> sent_;
  std::vector<mlx5::WqeOpcode> done_;
};

}  // namespace warpverbs::inline v0_2::device
