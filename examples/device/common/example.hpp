// The fixture of the examples: two connected endpoints in one process, registered memory, and checks.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_error.hpp"

/// Runs an example, which throws on any error, and returns the exit status of the program.
///
/// @param lesson  text of --help, in one line
inline int Run(int argc, char** argv, const char* lesson, const std::function<void()>& example) {
  if (argc > 1) {
    const bool help = std::strcmp(argv[1], "--help") == 0;
    std::fprintf(help ? stdout : stderr, help ? "%s\n" : "%s Options: --help.\n", lesson);
    return help ? 0 : 2;
  }
  try {
    example();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

/// Throws unless an expectation holds.
inline void Check(bool holds, const std::string& expected) {
  if (!holds) throw std::runtime_error("This is wrong: " + expected + ".");
}

/// Throws unless a kernel's call has succeeded.
inline void CheckOk(const warpverbs::device::Status& status, const std::string& call) {
  Check(status.ok(), call + " succeeds, but it returned " + warpverbs::host::Describe(status));
}

/// Two endpoints that are connected to each other. Most kernels post to `here`.
struct Pair {
  explicit Pair(const warpverbs::host::Device& device,
                const warpverbs::host::EndpointConfig& here_config = {},
                const warpverbs::host::EndpointConfig& there_config = {})
      : here(device, here_config), there(device, there_config) {
    Connect();
  }

  void Connect() {
    here.Connect(there.Info());
    there.Connect(here.Info());
  }

  warpverbs::host::Endpoint here, there;
};

/// A registered array, as local memory or as the peer's.
template <class T = uint64_t>
class Memory {
 public:
  Memory(const warpverbs::host::Device& device, size_t count, T value = {})
      : words_(count, value),
        region_(device, words_.data(), count * sizeof(T),
                {.remote_read = true, .remote_write = true, .remote_atomic = true}) {}

  T& operator[](size_t index) { return words_[index]; }
  bool operator==(const Memory& other) const { return words_ == other.words_; }
  warpverbs::host::MemoryView View() const { return region_.View(); }

  /// Returns `count` elements from `first`, as local memory.
  warpverbs::device::LocalMemory Local(size_t first, size_t count) const {
    return View().Subrange(first * sizeof(T), count * sizeof(T)).Local();
  }
  warpverbs::device::LocalMemory Local() const { return Local(0, words_.size()); }

  /// Returns the elements from `first`, as remote memory.
  warpverbs::device::RemoteMemory Remote(size_t first = 0) const {
    return View().Subrange(first * sizeof(T), (words_.size() - first) * sizeof(T)).Remote();
  }

 private:
  std::vector<T> words_;
  warpverbs::host::MemoryRegion region_;
};

/// Runs kernels of one thread each concurrently, and waits for all of them.
template <class... Kernels>
void RunTogether(const Kernels&... kernels) {
  const std::jthread running[] = {std::jthread(kernels)...};
}

/// Returns the limit of every wait in the examples.
template <class A>
WARPVERBS_DEVICE warpverbs::device::WaitLimit TenSeconds() {
  return {.deadline_ns = A::NowNs() + 10'000'000'000};
}

/// Posts an operation and waits until it is done.
template <class A, class Queue, class Operation>
WARPVERBS_DEVICE warpverbs::device::Status PostAndWait(Queue& queue, const Operation& operation) {
  const auto limit = TenSeconds<A>();
  const warpverbs::device::Posted posted = queue.Post(operation, limit);
  return posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
}
