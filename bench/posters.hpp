#pragma once

#include <memory>
#include <span>

#include "verbs_queue.hpp"

namespace warpverbs::bench {

/// A way to post signalled writes of 8 bytes to a queue, with a doorbell for each write or for each 16.
class Poster {
 public:
  virtual ~Poster() = default;

  /// Posts VerbsQueue::kDepth writes. Benchmarks time this function, and callgrind finds it by its name.
  virtual void PostBatch() = 0;

  /// Lets the NIC execute the batch and polls its completions.
  virtual void Drain() = 0;
};

struct PosterKind {
  const char* name;
  std::unique_ptr<Poster> (*make)(VerbsQueue& queue);  ///< the queue must be new
};

std::span<const PosterKind> PosterKinds();

}  // namespace warpverbs::bench
