#pragma once

#include <array>
#include <atomic>
#include <span>

#include "soak/rounds/poster.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/receive_queue.hpp"

namespace soak {

/// Takes the messages of a pair, and checks that each poster's come once and in order.
class Receiver {
 public:
  /// @param memory  place for each of the queue's receives
  Receiver(const Context& context, const PairPlan& plan, const Causes& causes, uint32_t pair,
           const warpverbs::device::ReceiveQueueView& view, std::span<uint8_t> memory,
           const warpverbs::device::LocalMemory& local);

  /// Receives until Finish(), or until the queue fails.
  void Run();

  /// Lets Run() end once all that arrived has been taken. The peer posts no more.
  void Finish() { finishing_ = true; }

  /// Checks the number of messages, when Run() has ended.
  void CheckCounts() const;

 private:
  void PostReceive(uint32_t number);
  void Check(const warpverbs::device::Received& received);
  bool HasAll() const;

  const Context& context_;
  const PairPlan& plan_;
  const Causes& causes_;
  uint32_t pair_;
  uint32_t depth_;
  std::span<uint8_t> memory_;
  warpverbs::device::LocalMemory local_;
  warpverbs::device::ReceiveQueue<warpverbs::arch::Cpu> queue_;
  bool two_parts_;
  std::atomic<bool> finishing_ = false;
  std::array<uint32_t, kMaxPosters> taken_{};
};

}  // namespace soak
