// What every program here needs beside its operation: two connected endpoints in one process, memory with
// keys, checks that say what is wrong.
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
#include "warpverbs/host/status_text.hpp"

/// Runs an example, which throws if it finds anything wrong, and returns the program's exit status.
///
/// @param lesson  what it does, in one line: the answer to --help
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

/// Throws unless what is expected is so.
inline void Check(bool so, const std::string& expected) {
  if (!so) throw std::runtime_error("This is wrong: " + expected + ".");
}

/// Throws unless a kernel's call has done what it should.
inline void CheckOk(const warpverbs::device::Status& status, const std::string& call) {
  Check(status.ok(), call + " succeeds, but it answers " + warpverbs::host::Describe(status));
}

/// Two endpoints that are connected to each other, `here` the one that kernels post to.
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

/// An array that the NIC may reach: for this side, or for the peer.
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

  /// `count` elements from `first` on, as operations name them on this side.
  warpverbs::device::LocalMemory Local(size_t first, size_t count) const {
    const warpverbs::host::MemoryView part = View().Subrange(first * sizeof(T), count * sizeof(T));
    return {part.addr, part.bytes, warpverbs::mlx5::ToBe32(part.lkey)};
  }
  warpverbs::device::LocalMemory Local() const { return Local(0, words_.size()); }

  /// Element `first` and what follows, as the peer's operations name it.
  warpverbs::device::RemoteMemory Remote(size_t first = 0) const {
    return {View().addr + first * sizeof(T), warpverbs::mlx5::ToBe32(View().rkey)};
  }

 private:
  std::vector<T> words_;
  warpverbs::host::MemoryRegion region_;
};

/// Runs kernels of one thread each at the same time, and waits for all of them.
template <class... Kernels>
void RunTogether(const Kernels&... kernels) {
  const std::jthread running[] = {std::jthread(kernels)...};
}

/// How long an example waits before it gives up.
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
