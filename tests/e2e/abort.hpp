#pragma once

#include <cstdint>
#include <thread>

#include "pair.hpp"

namespace warpverbs::e2e {

/// A limit whose abort word another thread sets long after the wait has begun. Use one Abort per wait.
class Abort {
 public:
  device::WaitLimit limit() const {
    device::WaitLimit limit = Within();
    limit.abort = &word_;
    return limit;
  }

 private:
  void SetLater() {
    for (device::Waiter<Cpu> waiter(Within(5'000'000)); waiter.Next() == device::Code::kPending;) {
    }
    Cpu::Store(&word_, 1);
  }

  uint64_t word_ = 0;
  std::jthread setter_{[this] { SetLater(); }};
};

}  // namespace warpverbs::e2e
