#pragma once

#include <cstddef>
#include <memory>

#include "gpuio/ring/layout.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A ring in memory of the test.
class OwnedRing {
 public:
  explicit OwnedRing(int entries)
      : words_(std::make_unique<uint64_t[]>(RingBytes(entries) / 8)),
        memory_(reinterpret_cast<std::byte*>(words_.get()), entries) {
    sem_init(memory_.semaphore(), 1, 0);
  }

  const RingMemory& memory() const { return memory_; }
  std::byte* bytes() const { return reinterpret_cast<std::byte*>(words_.get()); }

 private:
  std::unique_ptr<uint64_t[]> words_;
  RingMemory memory_;
};

}  // namespace warpverbs::inline v0_2::gpuio
