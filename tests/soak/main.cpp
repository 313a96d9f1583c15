#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "common/repetitions.hpp"
#include "soak/queue.hpp"

/// Two processes that run every operation between each other on eight queue pairs, and check every result.
namespace soak {
namespace {

using std::chrono::steady_clock;

struct Options {
  uint32_t seconds = 60;
  uint64_t seed = 1;
  uint8_t timeout = 18;
};

/// Resources of a process.
struct Footprint {
  size_t descriptors = 0;
  size_t resident_bytes = 0;
};

Footprint Measure() {
  Footprint now;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++now.descriptors;
  size_t total = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> total >> pages;
  now.resident_bytes = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return now;
}

/// Throws if descriptors or memory have grown. A sanitizer keeps freed memory, so there only descriptors
/// count.
void CheckLeak(const Footprint& before, const Footprint& after) {
  const bool grown =
      !warpverbs::tests::kSanitized && after.resident_bytes > before.resident_bytes + (size_t{16} << 20);
  if (after.descriptors != before.descriptors || grown) {
    throw std::runtime_error("leak: from " + std::to_string(before.descriptors) + " descriptors and " +
                             std::to_string(before.resident_bytes >> 10) + " KiB to " +
                             std::to_string(after.descriptors) + " and " +
                             std::to_string(after.resident_bytes >> 10) + " KiB");
  }
}

/// One of the two processes.
class End {
 public:
  End(uint32_t number, const Options& options, Meeting& meeting)
      : number_(number), options_(options), meeting_(meeting), context_(verbs::Open()) {
    for (uint32_t i = 0; i < kQueues; ++i) {
      const Stream own{options.seed, number, i}, peer{options.seed, 1 - number, i};
      queues_.push_back(std::make_unique<Queue>(context_.get(), own, peer));
      queues_[i]->Introduce(Own(i));
    }
  }

  void Run() {
    Meet(0);
    for (uint32_t i = 0; i < kQueues; ++i)
      queues_[i]->Connect(Own(i), meeting_.ends[1 - number_][i], options_.timeout);
    Meet(1);
    Exchange();
    Meet(2);
    uint64_t operations = 0;
    for (const auto& queue : queues_) {
      queue->CheckEnd();
      operations += queue->completed();
    }
    std::printf("end %u: %" PRIu64 " operations, all correct\n", number_, operations);
    Meet(3);
  }

 private:
  QueueInfo& Own(uint32_t queue) { return meeting_.ends[number_][queue]; }

  void CheckPeer(steady_clock::time_point since) const {
    if (meeting_.failed)
      throw std::runtime_error("end " + std::to_string(number_) + " stops: the other end failed");
    if (steady_clock::now() - since < kStall) return;
    std::string text = "no progress";
    for (const auto& queue : queues_) text += "\n  " + queue->Where();
    throw std::runtime_error(text);
  }

  /// Waits until the other process has reached the stage, too.
  void Meet(size_t stage) {
    const auto since = steady_clock::now();
    for (++meeting_.arrived[stage]; meeting_.arrived[stage] != 2; std::this_thread::yield()) CheckPeer(since);
  }

  void Exchange() {
    const auto start = steady_clock::now();
    const std::chrono::milliseconds length(1000 * options_.seconds);
    auto last_progress = start;
    std::unique_ptr<Footprint> warm;
    for (bool done = false; !done;) {
      const auto now = steady_clock::now();
      if (warm == nullptr && now - start > length / 4) warm = std::make_unique<Footprint>(Measure());
      bool progress = false;
      done = true;
      for (const auto& queue : queues_) {
        progress |= queue->Run(now - start > length);
        done &= queue->Done();
      }
      if (progress) last_progress = now;
      CheckPeer(last_progress);
      // Leave the processors to the software HCA.
      if (!progress) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    CheckLeak(*warm, Measure());
  }

  uint32_t number_;
  const Options& options_;
  Meeting& meeting_;
  verbs::Context context_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

/// @return  an exit code
int RunEnd(uint32_t number, const Options& options, Meeting& meeting) {
  try {
    End(number, options, meeting).Run();
    std::fflush(stdout);
    return testing::Test::HasFailure() ? 1 : 0;
  } catch (const std::exception& error) {
    // When this end fails, the other one fails too: report the first failure only.
    if (!meeting.failed.exchange(true)) std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
}

int RunBoth(const Options& options) {
  void* const memory =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto& meeting = *new (memory) Meeting{};
  std::printf("seed %" PRIu64 ", %u s\n", options.seed, options.seconds);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) std::exit(RunEnd(1, options, meeting));  // not _exit(): observers must finish their files
  const int own = RunEnd(0, options, meeting);
  int status = 0;
  waitpid(child, &status, 0);
  return own != 0 || status != 0 ? 1 : 0;
}

}  // namespace
}  // namespace soak

int main(int argc, char** argv) {
  soak::Options options;
  CLI::App app("Runs every operation between two processes on eight queue pairs, and checks every result.");
  app.add_option("--seconds", options.seconds, "Duration (60)");
  app.add_option("--seed", options.seed, "Seed of operations, sizes and bytes (1)");
  app.add_option("--timeout", options.timeout,
                 "Acknowledge timeout of the 7 retries, as a code from 1 to 31 (18: 1 s)")
      ->check(CLI::Range(1, 31));
  CLI11_PARSE(app, argc, argv);
  testing::InitGoogleTest();
  return soak::RunBoth(options);
}
