// Posts in each way and prints the number of posts; count-instructions counts the instructions.
#include <cstdio>
#include <exception>

#include "posters.hpp"
#include "warpverbs/host/device.hpp"

int main() try {
  using namespace warpverbs;
  constexpr uint32_t kBatches = 8;
  const host::Device device;
  for (const bench::PosterKind& kind : bench::PosterKinds()) {
    bench::VerbsQueue queue(device);
    const auto poster = kind.make(queue);
    for (uint32_t i = 0; i < kBatches; ++i) {
      poster->PostBatch();
      poster->Drain();
    }
  }
  std::printf("%u\n", kBatches * bench::VerbsQueue::kDepth);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
