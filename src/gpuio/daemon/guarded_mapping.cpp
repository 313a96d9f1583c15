#include "gpuio/daemon/guarded_mapping.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

namespace warpverbs::inline v0_2::gpuio {
namespace {

/// A range whose faults are caught. The signal handler reads it without a lock.
struct Guard {
  std::atomic<bool> is_taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> was_hit{false};
};

constexpr size_t kMaxGuards = GuardedMapping::kMaxCount;
std::array<Guard, kMaxGuards> guards;
std::atomic<size_t> guards_used{0};  // none at or above was ever taken
static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// Puts zeroed memory where a file has ended: from the page that was accessed to the end of the range,
/// because the file has nothing there either. A mapping for each page would use up those that a process may
/// have. Calls the kernel itself: mmap() is not on POSIX's list for signal handlers, and sanitizers replace
/// it.
void HandleBusError(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const size_t used = guards_used.load();
  for (size_t i = 0; i < used; ++i) {
    Guard& guard = guards[i];
    const uintptr_t end = guard.end.load();
    if (address < guard.begin.load() || address >= end) continue;
    if (info->si_code != BUS_ADRERR) break;  // a memory error: its bytes are lost, and must not become zeros
    const uintptr_t page = address & ~(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
    if (syscall(SYS_mmap, page, end - page, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0) == -1)
      break;
    guard.was_hit = true;
    errno = saved_errno;
    return;
  }
  std::signal(signal, SIG_DFL);  // not ours: the access happens again, and ends the program
}

bool InstallHandler() {
  struct sigaction action {};
  action.sa_sigaction = &HandleBusError;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGBUS, &action, nullptr) == 0;
}

/// @return  kMaxGuards: all are taken
size_t TakeGuard(uintptr_t begin, uintptr_t end) {
  static const bool installed = InstallHandler();
  if (!installed) return kMaxGuards;
  for (size_t i = 0; i < kMaxGuards; ++i) {
    if (guards[i].is_taken.exchange(true)) continue;
    guards[i].was_hit = false;
    guards[i].begin = begin;
    guards[i].end = end;
    size_t used = guards_used.load();
    while (used <= i && !guards_used.compare_exchange_weak(used, i + 1)) {
    }
    return i;
  }
  return kMaxGuards;
}

}  // namespace

std::unique_ptr<GuardedMapping> GuardedMapping::Map(host::FileDescriptor file, size_t bytes, int& error) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  error = mapped == MAP_FAILED ? errno : 0;
  if (error != 0) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const size_t guard = TakeGuard(begin, begin + bytes);
  if (guard == kMaxGuards) {
    munmap(mapped, bytes);
    error = ENOMEM;
    return nullptr;
  }
  return std::unique_ptr<GuardedMapping>(
      new GuardedMapping(std::move(file), static_cast<std::byte*>(mapped), bytes, guard));
}

GuardedMapping::~GuardedMapping() {
  guards[guard_].end = 0;
  guards[guard_].begin = 0;
  munmap(data_, size_);
  guards[guard_].is_taken = false;
}

bool GuardedMapping::WasTruncated() const { return guards[guard_].was_hit; }

}  // namespace warpverbs::inline v0_2::gpuio
