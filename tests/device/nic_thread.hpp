#pragma once

#include <thread>

#include "test_nic.hpp"

namespace warpverbs::inline v0_2::device {

/// Runs a TestNic on a thread until Stop() or destruction. Read the NIC's state only after Stop().
class NicThread {
 public:
  explicit NicThread(TestNic& nic)
      : thread_([&nic](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            if (!nic.Step()) std::this_thread::yield();
          }
        }) {}

  void Stop() {
    thread_.request_stop();
    thread_.join();
  }

 private:
  std::jthread thread_;
};

}  // namespace warpverbs::inline v0_2::device
