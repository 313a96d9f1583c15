#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "test_queue.hpp"

namespace warpverbs::inline v0_2::device {

/// The end of the WQEs that the NIC fetches after a doorbell.
enum class FetchUpTo {
  kDoorbell,  ///< the doorbell's own WQE: a WQE without a doorbell is never executed
  kRecord,    ///< the record's current value, as on a ConnectX
};

/// The NIC of one TestQueue: reads the doorbell, executes the WQEs and writes their completions.
///
/// It requires all memory keys to be kTestKey. violation() describes the first broken rule.
class TestNic {
 public:
  explicit TestNic(TestQueue& queue, uint32_t start = 0, FetchUpTo fetch = FetchUpTo::kDoorbell)
      : queue_(queue), fetch_(fetch), next_(start), rung_(start) {}

  /// Makes the NIC fail the WQE at `index` and flush all later ones.
  void FailAt(uint32_t index, mlx5::Syndrome syndrome);

  /// Executes the next WQE. Returns false if no doorbell covers it yet.
  bool Step();

  uint32_t next() const { return next_; }            ///< index of the next WQE to execute
  uint32_t rung() const { return rung_; }            ///< end of the WQEs that doorbells cover
  uint32_t doorbells() const { return doorbells_; }  ///< number of doorbells seen
  const std::string& violation() const { return violation_; }
  const std::vector<std::string>& sent() const { return sent_; }         ///< messages sent
  const std::vector<mlx5::WqeOpcode>& opcodes() const { return done_; }  ///< opcodes of the executed WQEs

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
