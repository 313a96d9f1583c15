#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "nic.hpp"
#include "place.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

/// What the tests start from: the library on softhca or on a ConnectX.
namespace warpverbs::e2e {

using arch::Cpu;

template <class Sharing>
using Queue = device::SendQueue<Cpu, Sharing>;

/// A limit within which everything must end, even on a busy machine.
inline device::WaitLimit Within(uint64_t ns = 60'000'000'000) { return {.deadline_ns = Cpu::NowNs() + ns}; }

struct PairOptions {
  host::EndpointConfig a{};
  host::EndpointConfig b{};
  size_t bytes = 4096;  ///< size of each memory
  host::Access target_access{.remote_read = true, .remote_write = true, .remote_atomic = true};
};

/// Returns the options for posters of a kind at endpoint `a`.
template <device::Sharing S>
PairOptions For(PairOptions options) {
  options.a.contended = std::is_same_v<S, device::Contended>;
  return options;
}

/// Two endpoints: `a` writes from `source`, and `b` allows writes to `target`. Not connected at first.
class Pair {
 public:
  /// @param on  device of both endpoints; by default one of their own
  explicit Pair(const PairOptions& options = {}, std::shared_ptr<host::Device> on = OpenNic())
      : device_(std::move(on)),
        device(*device_),
        a(device, Placed(options.a)),
        b(device, Placed(options.b)),
        source_(options.bytes),
        target_(options.bytes),
        source_region_(device, source_.data(), options.bytes),
        target_region_(device, target_.data(), options.bytes, options.target_access) {}

  void Connect() {
    a.Connect(b.Info());
    b.Connect(a.Info());
  }

  /// Returns the end of the posters' queue: reserved << 32 | published, whatever they are.
  uint64_t End() const {
    const device::QueueView view = a.View();
    return (view.flags & device::kContended) != 0
               ? view.control->tail >> 32 << 32 | static_cast<uint32_t>(view.control->ready)
               : view.control->tail;
  }

  /// Resets both endpoints, and connects them again.
  void Reconnect() {
    a.Reset();
    b.Reset();
    Connect();
  }

  uint64_t& Source(size_t index) { return reinterpret_cast<uint64_t*>(source_.data())[index]; }
  uint64_t& Target(size_t index) { return reinterpret_cast<uint64_t*>(target_.data())[index]; }

  /// Returns the value at an offset in bytes.
  template <class T>
  T& SourceAt(size_t offset) {
    return *reinterpret_cast<T*>(source_.data() + offset);
  }
  template <class T>
  T& TargetAt(size_t offset) {
    return *reinterpret_cast<T*>(target_.data() + offset);
  }

  device::LocalMemory Local(uint64_t offset, uint64_t bytes) const {
    const host::MemoryView view = source_region_.View();
    return {view.addr + offset, bytes, mlx5::ToBe32(view.lkey)};
  }
  /// Returns the target as its owner `b` addresses it.
  device::LocalMemory TargetLocal(uint64_t offset, uint64_t bytes) const {
    const host::MemoryView view = target_region_.View();
    return {view.addr + offset, bytes, mlx5::ToBe32(view.lkey)};
  }
  device::RemoteMemory Remote(uint64_t offset) const {
    const host::MemoryView view = target_region_.View();
    return {view.addr + offset, mlx5::ToBe32(view.rkey)};
  }

  /// Writes one word of the source to the same place in the target.
  template <class Sharing>
  device::Posted PutWord(Queue<Sharing>& queue, size_t index,
                         const device::WaitLimit& limit = Within()) const {
    return queue.Post(device::Write(Remote(index * 8), Local(index * 8, 8)), limit);
  }

 private:
  std::shared_ptr<host::Device> device_;

 public:
  host::Device& device;
  host::Endpoint a, b;

 private:
  Memory source_, target_;
  host::MemoryRegion source_region_, target_region_;
};

}  // namespace warpverbs::e2e
