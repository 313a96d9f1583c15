// Measures time and memory of many endpoints, from creation to destruction, in two processes that connect to
// each other. `endpoints_benchmark [--count N] [--depth N] [--pool] [--nic NAME]` starts its peer itself.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "nic_label.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_pool.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::bench {
namespace {

using arch::Cpu;
using Clock = std::chrono::steady_clock;
using Queue = device::SendQueue<Cpu, device::Exclusive>;

struct Options {
  uint32_t count = 1000;
  uint32_t depth = 64;
  bool pool = false;
  std::string nic{};
  uint16_t port = 0;  ///< port of the other process; 0: this process starts the other
};

template <class Number>
Number Parse(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument("not a number: " + std::string(text));
  }
  return number;
}

Options Read(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--pool") {
      options.pool = true;
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument("wrong option " + std::string(name));
    const std::string_view value = argv[++i];
    if (name == "--count") {
      options.count = Parse<uint32_t>(value);
    } else if (name == "--depth") {
      options.depth = Parse<uint32_t>(value);
    } else if (name == "--nic") {
      options.nic = value;
    } else if (name == "--connect") {
      options.port = Parse<uint16_t>(value);
    } else {
      throw std::invalid_argument("there is no option " + std::string(name));
    }
  }
  return options;
}

/// Memory that this process holds.
struct Held {
  uint64_t resident, address_space;  ///< sizes in bytes
  size_t files, mappings;

  static Held Now() {
    uint64_t pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    std::ifstream maps("/proc/self/maps");
    const auto mappings = std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return {resident * page, pages * page, static_cast<size_t>(std::distance(begin(files), end(files))),
            static_cast<size_t>(mappings)};
  }
};

/// Returns this thread's processor time, including softhca's commands.
double ProcessorUs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

/// Measures a step and prints its cost for each endpoint.
class Report {
 public:
  Report(uint32_t count, bool silent) : count_(count), silent_(silent) {}

  template <class Step>
  void Time(const char* name, const Step& step) const {
    const Clock::time_point start = Clock::now();
    const double busy_us = ProcessorUs();
    step();
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (!silent_) {
      std::printf("%-12s %8.1f us each, the processor worked for %.1f us of it\n", name,
                  took.count() / count_, (ProcessorUs() - busy_us) / count_);
    }
  }

  void Memory(const char* name, const Held& before, const Held& now) const {
    if (silent_) return;
    const auto each = [&](uint64_t then, uint64_t later) {
      return (static_cast<double>(later) - static_cast<double>(then)) / 1024 / count_;
    };
    std::printf(
        "%-12s %8.1f KiB resident, %.1f KiB of address space each; %zd files and %zd mappings more in all\n",
        name, each(before.resident, now.resident), each(before.address_space, now.address_space),
        static_cast<ssize_t>(now.files - before.files), static_cast<ssize_t>(now.mappings - before.mappings));
  }

 private:
  uint32_t count_;
  bool silent_;
};

/// Registered memory with a word for each endpoint.
struct Words {
  Words(const host::Device& device, uint32_t count)
      : pages(8 * size_t{count}), region(device, pages.data(), pages.size(), {.remote_write = true}) {}

  uint64_t* data() const { return reinterpret_cast<uint64_t*>(pages.data()); }

  host::HostPages pages;
  host::MemoryRegion region;
};

host::MemoryView SwapViews(const Words& words, host::TcpExchange& exchange, host::Deadline deadline) {
  const host::MemoryView mine = words.region.View();
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&mine);
  const std::vector<uint8_t> answer = exchange.Swap({bytes, sizeof mine}, "a region", deadline);
  host::MemoryView theirs;
  if (answer.size() != sizeof theirs) throw std::runtime_error("the peer is another program");
  std::memcpy(&theirs, answer.data(), sizeof theirs);
  return theirs;
}

/// Writes a word through an endpoint and waits for the completion.
void RoundTrip(const host::Endpoint& endpoint, const host::MemoryView& from, const host::MemoryView& to) {
  Queue queue(endpoint.View());
  const device::WaitLimit limit{.deadline_ns = Cpu::NowNs() + 10'000'000'000};
  const device::Posted posted = queue.Post(device::Write(to.Remote(), from.First(8).Local()), limit);
  if (!posted.status.ok() || !queue.Wait(posted.ticket, limit).ok())
    throw std::runtime_error("a write failed");
}

/// Endpoints of this process, and their pool if they have one.
struct Endpoints {
  Endpoints(const host::Device& device, const Options& options) {
    if (options.pool) pool.emplace(device);
    for (uint32_t i = 0; i < options.count; ++i) {
      owned.push_back(std::make_unique<host::Endpoint>(
          device, host::EndpointConfig{.depth = options.depth, .pool = pool ? &*pool : nullptr}));
      list.push_back(owned.back().get());
    }
  }

  std::optional<host::QueuePool> pool;
  std::vector<std::unique_ptr<host::Endpoint>> owned;
  std::vector<host::Endpoint*> list;
};

void Run(const Options& options, host::TcpExchange& exchange) {
  const bool writes = options.port == 0;  // the other process sleeps meanwhile
  const host::Deadline deadline = host::DeadlineIn(std::chrono::minutes(5));
  const auto meet = [&] { exchange.Swap({}, "a word", deadline); };
  const Report report(options.count, !writes);
  const host::Device device(options.nic.empty() ? host::FirstActiveDevice() : options.nic);
  if (writes) {
    std::printf("%u endpoints of depth %u, %s, on %s\n", options.count, options.depth,
                options.pool ? "in a pool" : "each with its own pages", NicLabel(device).c_str());
  }
  const Words source(device, options.count), target(device, options.count);
  const host::MemoryView theirs = SwapViews(target, exchange, deadline);
  const Held before = Held::Now();
  std::optional<Endpoints> endpoints;

  meet();
  report.Time("create", [&] { endpoints.emplace(device, options); });
  report.Memory("created", before, Held::Now());
  meet();
  report.Time("connect", [&] { host::ConnectAll(endpoints->list, exchange, deadline); });
  for (const char* const name : {"first write", "second write"}) {
    if (!writes) break;
    report.Time(name, [&] {
      for (uint32_t i = 0; i < options.count; ++i) {
        ++source.data()[i];
        RoundTrip(*endpoints->list[i], source.region.View().Subrange(8 * size_t{i}, 8),
                  theirs.Subrange(8 * size_t{i}, 8));
      }
    });
  }
  meet();
  for (uint32_t i = 0; !writes && i < options.count; ++i) {
    if (target.data()[i] != 2) throw std::runtime_error("the data are wrong");
  }
  report.Memory("connected", before, Held::Now());
  meet();
  report.Time("destroy", [&] { endpoints.reset(); });
  report.Memory("destroyed", before, Held::Now());
  meet();
}

/// Starts this program again with the same options; it connects to `port`.
pid_t StartPeer(int argc, char** argv, uint16_t port) {
  std::string option = "--connect", value = std::to_string(port);
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.end(), {option.data(), value.data(), nullptr});
  pid_t child = 0;
  if (const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ)) {
    throw std::system_error(error, std::generic_category(), "the peer cannot be started");
  }
  return child;
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) try {
  namespace bench = warpverbs::bench;
  namespace host = warpverbs::host;
  const bench::Options options = bench::Read(argc, argv);
  const host::Deadline deadline = host::DeadlineIn(std::chrono::seconds(60));
  if (options.port != 0) {
    host::TcpExchange exchange = host::TcpExchange::Connect({"localhost", options.port}, deadline);
    bench::Run(options, exchange);
    return 0;
  }
  const host::TcpListener listener;
  const pid_t peer = bench::StartPeer(argc, argv, listener.port());
  host::TcpExchange exchange = listener.Accept(deadline);
  bench::Run(options, exchange);
  int status = 0;
  waitpid(peer, &status, 0);
  return status == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
