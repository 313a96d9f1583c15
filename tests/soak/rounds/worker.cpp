#include "soak/rounds/worker.hpp"

#include <execinfo.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "soak/rounds/context.hpp"

namespace soak {
namespace {

/// Prints the stack of the thread that gets the signal.
void PrintStack(int) {
  std::array<void*, 60> frames;
  const int count = backtrace(frames.data(), frames.size());
  constexpr char kTitle[] = "--- a thread:\n";
  static_cast<void>(!write(STDERR_FILENO, kTitle, sizeof kTitle - 1));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
}

/// Prints the stack of the thread that ends the process.
void PrintLastStack(int signal) {
  PrintStack(signal);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Limit(__rlimit_resource resource, uint64_t to) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = std::min<rlim_t>(to, limit.rlim_max);
  setrlimit(resource, &limit);
}

/// Applies the limits that are relative to what the process has.
void Apply(const LimitPlan& limits) {
  if (limits.files != 0) {
    const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    Limit(RLIMIT_NOFILE, static_cast<uint64_t>(open) + limits.files);
  }
  if (limits.memory_bytes != 0) {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    Limit(RLIMIT_AS, pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + limits.memory_bytes);
  }
  if (limits.locked_bytes != 0) Limit(RLIMIT_MEMLOCK, limits.locked_bytes);
}

void RunSide(const Context& context) {
  try {
    if (context.plan.kind == RoundKind::kTransports) {
      RunTransports(context);
    } else {
      RunEndpoints(context);
    }
  } catch (const std::exception& error) {
    Refuse(context, error);
  }
  context.own().done = true;
}

}  // namespace

int RunWorker(const std::string& folder, uint64_t seed, uint64_t round, uint32_t side) {
  std::array<void*, 1> first;
  backtrace(first.data(), 1);  // loads a library, for which there may be no memory later
  std::signal(SIGUSR2, PrintStack);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, PrintLastStack);
  const BoardFile board = BoardFile::Open(folder + "/board");
  const RoundPlan plan = PlanOf(seed, round);
  const Context own{plan, *board, side}, other{plan, *board, 1 - side};
  Apply(plan.limits[side]);
  own.own().pid = getpid();
  std::thread second;
  try {
    if (plan.processes == 1) second = std::thread([&] { RunSide(other); });
  } catch (const std::exception& error) {
    Refuse(own, error);
  }
  RunSide(own);
  if (second.joinable()) second.join();
  return 0;
}

}  // namespace soak
