#pragma once

#include <memory>
#include <span>

#include "verbs_queue.hpp"

namespace warpverbs::bench {

/// A way to post signalled writes of 8 bytes to a queue, each with its own doorbell or 16 with one.
class Poster {
 public:
  virtual ~Poster() = default;

  /// Posts VerbsQueue::kDepth writes. This is what is measured; tools find it by its name.
  virtual void PostBatch() = 0;

  /// Has the NIC execute the batch, and takes its completions.
  virtual void Drain() = 0;
};

struct PosterKind {
  const char* name;
  std::unique_ptr<Poster> (*make)(VerbsQueue& queue);  ///< the queue must be new
};

std::span<const PosterKind> PosterKinds();

}  // namespace warpverbs::bench
