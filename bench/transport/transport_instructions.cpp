// Writes through a transport and prints the number of writes; count-instructions counts the instructions. The
// loop runs on this thread, so they include its part. No thread polls while the NIC works.
#include <asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "pair.hpp"

namespace {

using namespace warpverbs;

constexpr int kBatch = 128, kBatches = 8;

asio::io_context g_context;
int g_done = 0;

/// Starts writes, each of which is posted at once.
[[gnu::noinline]] void WriteBatch(transport::RdmaTransport& from, const transport::RdmaMemory::View& view,
                                  const transport::RdmaRemoteBuffer& remote) {
  for (int i = 0; i < kBatch; ++i) {
    from.Write(view, remote, {}, [](const transport::Status& status) { g_done += status.ok() ? 1 : 0; });
  }
}

/// Polls their completions.
[[gnu::noinline]] void CompleteBatch() { g_context.poll(); }

}  // namespace

int main() try {
  transport::EventLoop loop(g_context);
  transport::TransportConfig config;
  config.spin = std::chrono::nanoseconds(0);
  config.queue_pairs = 1;
  config.depth = kBatch;
  bench::TransportPair pair(&loop, config);
  bench::Region from(4096), to(4096);
  const auto view = from.memory.CreateView(size_t{0}, 64);
  const transport::RdmaRemoteBuffer remote = to.memory.Remote();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  auto connected = pair.a.Write(view, remote);
  while (connected.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    g_context.poll();
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the transports do not connect");
  }
  for (int i = 0; i < kBatches; ++i) {
    WriteBatch(pair.a, view, remote);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(200));  // only the counted instructions depend on this time
    CompleteBatch();
    if (g_done != kBatch * (i + 1)) throw std::runtime_error("the writes took too long");
  }
  std::printf("%d\n", g_done);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
