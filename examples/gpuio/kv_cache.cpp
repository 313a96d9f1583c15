// A cache of blocks on a disk, as an inference engine keeps keys and values of attention: threads fetch
// blocks by key straight into GPU memory, and store those that are missing out of it.
//
// Each thread has a buffer and two rings. All share a file of slots, and an index of it. A fetched block is
// compared where it is, on the GPU or the processor.
//
//   softhca --devx-events -- gpuio-kv-cache                blocks in host memory, software NIC
//   gpuio-kv-cache --device cuda:0 --mount /data           blocks on a GPU, by the daemon that serves /data
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "block_index.hpp"
#include "common/command_line.hpp"
#include "local_servers.hpp"
#include "pattern.hpp"
#include "ring_io.hpp"
#include "warpverbs/host/device.hpp"

namespace programs = warpverbs::programs;

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSmallestBlock = size_t{64} << 10, kLargestBlock = size_t{4} << 20;

struct Options {
  std::string mount;  ///< empty: one of its own
  std::string device = "cpu";
  int threads = 8;
  int seconds = 5;
  int hits = 80;  ///< share of requests for blocks that are there, in percent
  uint64_t capacity = uint64_t{256} << 20;
};

/// Returns the size of a block: 64 KiB to 4 MiB, by powers of two.
size_t BytesOf(uint64_t key) { return kSmallestBlock << PatternByte(key, 0) % 7; }

/// Times of one kind of request.
struct Times {
  std::vector<double> us;
  uint64_t bytes = 0;

  void Add(const Times& other) {
    us.insert(us.end(), other.us.begin(), other.us.end());
    bytes += other.bytes;
  }
};

struct Result {
  Times fetches, stores;
  uint64_t misses = 0;
};

/// What all threads share.
struct Cache {
  Cache(const std::filesystem::path& mount_folder, const Options& options)
      : mount(mount_folder),
        path(mount / ("kv-cache." + std::to_string(getpid()))),
        file(path, O_RDWR | O_CREAT | O_EXCL),
        index(options.capacity / kLargestBlock) {}
  ~Cache() { unlink(path.c_str()); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  std::filesystem::path mount, path;
  RegisteredFile file;
  BlockIndex index;
  std::atomic<uint64_t> next_key{1};
  std::atomic<bool> has_failed{false};  ///< threads end early
};

/// A thread's part: asks for blocks, one or more, until the time is over.
class Worker {
 public:
  Worker(Cache& cache, const Options& options, unsigned number)
      : cache_(cache),
        options_(options),
        random_(number),
        iov_(cache.mount, kLargestBlock, GpuOf(options.device)),
        block_(iov_.get()),
        reads_(cache.mount, true, 1),
        writes_(cache.mount, false, 1) {}

  void Run(Clock::time_point end) {
    do {
      const uint64_t key = ChooseKey();
      if (const auto slot = cache_.index.Find(key)) {
        Fetch(key, *slot);
        cache_.index.Release(key);
      } else {
        ++result_.misses;
        const size_t taken = cache_.index.Take();
        Store(key, taken);
        cache_.index.Insert(key, taken);
      }
    } while (Clock::now() < end && !cache_.has_failed);
  }

  const Result& result() const { return result_; }

 private:
  uint64_t ChooseKey() {
    if (static_cast<int>(random_() % 100) < options_.hits) {
      if (const auto key = cache_.index.SomeKey(random_())) return *key;  // may be evicted meanwhile
    }
    return cache_.next_key++;
  }

  void Fetch(uint64_t key, size_t slot) {
    const size_t bytes = BytesOf(key);
    Time(result_.fetches, bytes, [&] {
      reads_.Transfer(iov_, cache_.file, {.offset = slot * kLargestBlock, .bytes = bytes}, bytes);
      iov_.SyncAfterIo();
    });
    if (const size_t wrong = block_.CountWrong(bytes, key); wrong != 0)
      throw std::runtime_error(std::to_string(wrong) + " bytes of block " + std::to_string(key) +
                               " are wrong.");
  }

  void Store(uint64_t key, size_t slot) {
    const size_t bytes = BytesOf(key);
    block_.Fill(bytes, key);
    Time(result_.stores, bytes, [&] {
      iov_.SyncBeforeIo();
      writes_.Transfer(iov_, cache_.file, {.offset = slot * kLargestBlock, .bytes = bytes}, bytes);
    });
  }

  template <class Work>
  static void Time(Times& times, size_t bytes, const Work& work) {
    const auto start = Clock::now();
    work();
    times.us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    times.bytes += bytes;
  }

  Cache& cache_;
  const Options& options_;
  std::mt19937_64 random_;
  Iov iov_;
  PatternMemory block_;
  Ring reads_, writes_;
  Result result_;
};

/// Runs all threads to their ends, or until one fails.
Result RunAll(Cache& cache, const Options& options) {
  std::mutex mutex;
  Result total;
  std::exception_ptr error;
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  std::vector<std::jthread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, number = static_cast<unsigned>(i)] {
      try {
        Worker worker(cache, options, number);
        worker.Run(end);
        const std::lock_guard lock(mutex);
        total.fetches.Add(worker.result().fetches);
        total.stores.Add(worker.result().stores);
        total.misses += worker.result().misses;
      } catch (...) {
        cache.has_failed = true;
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    });
  }
  threads.clear();  // joins
  if (error) std::rethrow_exception(error);
  return total;
}

/// Returns the time that a share of requests did not exceed.
double Percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void Print(const char* name, Times times, double seconds) {
  std::sort(times.us.begin(), times.us.end());
  std::printf("%-8s %8zu %10.0f %10.0f %12.0f\n", name, times.us.size(), Percentile(times.us, 0.5),
              Percentile(times.us, 0.99), static_cast<double>(times.bytes) / seconds / 1e6);
}

void Demonstrate(const Options& options) {
  std::optional<TemporaryFolder> folder;
  std::optional<LocalServers> servers;
  if (options.mount.empty()) servers.emplace(folder.emplace().path());
  const auto mount = std::filesystem::canonical(folder ? folder->path().string() : options.mount);
  const bool is_software = programs::IsSoftwareBoard(programs::BoardOf(warpverbs::host::Device()));
  std::printf("%d threads, blocks of 64 KiB to 4 MiB in %s, %ju MiB of a file in %s%s\n", options.threads,
              options.device == "cpu" ? "host memory" : ("memory of " + options.device).c_str(),
              static_cast<uintmax_t>(options.capacity >> 20), mount.c_str(),
              is_software ? "; softhca, a software HCA: no network figures" : "");
  Cache cache(mount, options);
  const auto start = Clock::now();
  const Result result = RunAll(cache, options);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("            count     p50 us     p99 us         MB/s\n");
  Print("fetches", result.fetches, seconds);
  Print("stores", result.stores, seconds);
  const size_t requests = result.fetches.us.size() + result.misses;
  std::printf("%.1f %% of %zu requests were hits. All %ju bytes that were fetched are right.\n",
              requests == 0
                  ? 0.
                  : 100. * static_cast<double>(result.fetches.us.size()) / static_cast<double>(requests),
              requests, static_cast<uintmax_t>(result.fetches.bytes));
}

}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps lines and errors in order when both go to a file
  Options options;
  CLI::App app(
      "Keeps blocks of 64 KiB to 4 MiB on a disk: fetches them by key into GPU memory, from many threads.",
      "gpuio-kv-cache");
  app.footer(
      "\nBandwidths are those of the whole run, in which every byte is made and compared, too.\n"
      "Without a NIC: softhca --devx-events -- gpuio-kv-cache\n\nExit status:\n  0  all blocks are right\n"
      "  1  something failed; the message says what\n  2  the command line is invalid");
  app.add_option("--mount", options.mount,
                 "Mount of a daemon that runs (starts server and daemon over a temporary folder)")
      ->type_name("PATH")
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", options.device, "Where the blocks are fetched to: cpu, or cuda:N (cpu)")
      ->type_name("DEVICE")
      ->check(CheckDevice);
  app.add_option("--threads", options.threads, "Number of threads (8)")
      ->type_name("COUNT")
      ->check(programs::Integer(1, 256));
  app.add_option("--seconds", options.seconds, "Time to run (5)")
      ->type_name("SECONDS")
      ->check(programs::Integer(1, 86400));
  app.add_option("--hits", options.hits, "Share of requests for blocks that are there (80)")
      ->type_name("PERCENT")
      ->check(programs::Integer(0, 100));
  app.add_option("--capacity", options.capacity, "Size of the file: more than 4M for each thread (256M)")
      ->type_name("BYTES")
      ->transform(programs::Bytes(8 << 20, 3U << 30));
  const auto check = [&options] {
    if (options.capacity / kLargestBlock <= static_cast<uint64_t>(options.threads))
      throw CLI::ValidationError("--capacity has to be more than 4M for each of --threads");
  };
  if (const auto exit = programs::ParseCommandLine(app, argc, argv, check)) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  CatchSignals();
  Demonstrate(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpuio-kv-cache: %s\n", error.what());
  return 1;
}
