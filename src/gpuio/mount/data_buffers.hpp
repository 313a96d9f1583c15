#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "warpverbs/transport/memory.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Registered memory for what programs read and write, by pieces of 1 MiB.
class DataBuffers {
 public:
  static constexpr size_t kBytes = size_t{1} << 20;

  /// @errors  host::Error: the memory cannot be registered
  DataBuffers(size_t buffers, int device, uint32_t max_nics)
      : memory_(buffers * kBytes),
        registration_(static_cast<void*>(memory_.data()), memory_.size(), device, {.max_nics = max_nics}) {
    for (size_t i = 0; i < buffers; ++i) free_.push_back(memory_.data() + i * kBytes);
  }

  /// Calls a function with a buffer, at once or when one is free.
  void Take(std::function<void(uint8_t* buffer)> use) {
    if (free_.empty()) {
      waiting_.push_back(std::move(use));
      return;
    }
    uint8_t* const buffer = free_.back();
    free_.pop_back();
    use(buffer);
  }

  void Return(uint8_t* buffer) {
    if (waiting_.empty()) {
      free_.push_back(buffer);
      return;
    }
    const auto use = std::move(waiting_.front());
    waiting_.pop_front();
    use(buffer);
  }

  /// Forgets the functions that wait, which may own this.
  void Drop() { const auto dropped = std::exchange(waiting_, {}); }

  transport::RdmaRemoteBuffer Remote(uint8_t* buffer, size_t bytes) const {
    return {buffer, registration_.RemoteKey(), bytes};
  }

 private:
  std::vector<uint8_t> memory_;
  transport::RdmaMemory registration_;
  std::vector<uint8_t*> free_;
  std::deque<std::function<void(uint8_t*)>> waiting_;
};

}  // namespace warpverbs::inline v0_2::gpuio
