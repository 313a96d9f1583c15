#pragma once

#include <cstdint>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

/// Two endpoints on one device with memory, to see that they carry data.
namespace warpverbs::inline v0_2::host {

using arch::Cpu;
using device::Code;
using Queue = device::SendQueue<Cpu, device::Exclusive>;

/// A limit that holds even on a busy machine.
inline device::WaitLimit Within(uint64_t ns = 60'000'000'000) { return {.deadline_ns = Cpu::NowNs() + ns}; }

/// Words of one endpoint's program, registered with all rights.
struct Words {
  explicit Words(const Device& device)
      : pages(4096),
        region(device, pages.data(), pages.size(),
               {.remote_read = true, .remote_write = true, .remote_atomic = true}) {}

  uint64_t& operator[](size_t index) const { return reinterpret_cast<uint64_t*>(pages.data())[index]; }
  device::LocalMemory Local(size_t index) const {
    return {region.View().addr + 8 * index, 8, mlx5::ToBe32(region.View().lkey)};
  }
  device::RemoteMemory Remote(size_t index) const {
    return {region.View().addr + 8 * index, mlx5::ToBe32(region.View().rkey)};
  }

  HostPages pages;
  MemoryRegion region;
};

/// Endpoint `a` posts, `b` is its peer. Not connected yet.
struct Link {
  explicit Link(const Device& device, const EndpointConfig& a_config = {},
                const EndpointConfig& b_config = {})
      : source(device), target(device), a(device, a_config), b(device, b_config) {}

  void Connect() {
    a.Connect(b.Info());
    b.Connect(a.Info());
  }

  /// Writes `count` words, each from source to target. Returns the status.
  device::Status Write(uint32_t count) {
    Queue queue(a.View());
    for (uint32_t i = 0; i < count; ++i) {
      const size_t word = i % 512;
      source[word] = ++written;
      const device::Posted posted =
          queue.Post(device::Write(target.Remote(word), source.Local(word)), Within());
      device::Status status = posted.status;
      if (status.ok()) status = queue.Wait(posted.ticket, Within());
      if (!status.ok() || target[word] != written) {
        return status.ok() ? device::Status{.code = Code::kAborted} : status;
      }
    }
    return {};
  }

  /// Posts a write that the peer must refuse, without waiting for it.
  void PostWrongWrite() {
    Queue queue(a.View());
    device::RemoteMemory wrong = target.Remote(0);
    wrong.rkey.raw = ~wrong.rkey.raw;
    static_cast<void>(queue.Post(device::Write(wrong, source.Local(0)), Within()));
  }

  Words source, target;
  Endpoint a, b;
  uint64_t written = 0;
};

/// Waits for a condition. Returns false after a minute.
template <class Condition>
bool Await(const Condition& condition) {
  for (const device::WaitLimit limit = Within(); !condition();) {
    if (Cpu::NowNs() > limit.deadline_ns) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace warpverbs::inline v0_2::host
