#pragma once

#include <cstring>
#include <optional>
#include <span>

#include "devices.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/peer_table.hpp"
#include "warpverbs/host/queue_pool.hpp"
#include "warpverbs/host/shared_completions.hpp"

/// What many endpoints share.
namespace warpverbs::python {

/// Memory that the host writes and kernels read: a GPU's, or the host's without one.
class KernelMemory {
 public:
  KernelMemory(const std::optional<host::Gpu>& gpu, size_t bytes) {
    if (gpu) {
      on_gpu_.emplace(*gpu, bytes);
    } else {
      on_host_.emplace(bytes);
    }
  }

  uint64_t AddressOf(size_t offset) const {
    return reinterpret_cast<uint64_t>(on_gpu_ ? on_gpu_->data() : on_host_->data()) + offset;
  }

  template <class T>
  void Store(size_t offset, const T& value) const {
    if (on_gpu_) {
      on_gpu_->CopyIn(offset, std::as_bytes(std::span(&value, 1)));
    } else {
      std::memcpy(on_host_->data() + offset, &value, sizeof value);
    }
  }

 private:
  std::optional<host::GpuMemory> on_gpu_;
  std::optional<host::HostPages> on_host_;
};

struct EventThreadObject {
  host::EventThread thread;
};
struct PeerTableObject {
  PeerTableObject(uint32_t count, const std::optional<host::Gpu>& gpu);

  host::PeerTable table;
  KernelMemory view;
};
struct QueuePoolObject {
  std::shared_ptr<const host::Device> device;
  host::QueuePool pool;
};
struct CompletionsObject {
  CompletionsObject(std::shared_ptr<const host::Device> nic, uint32_t depth, uint32_t max_queues,
                    const std::optional<host::Gpu>& gpu)
      : device(std::move(nic)),
        ring(*device, {.depth = depth, .max_queues = max_queues, .gpu = gpu ? &*gpu : nullptr}) {}

  std::shared_ptr<const host::Device> device;
  host::SharedCompletions ring;
};

/// warpverbs.EventThread, PeerTable, QueuePool and SharedCompletions
class EventThread : public Handle<EventThreadObject> {
 public:
  explicit EventThread(const py::object& port_down_grace);
};
class PeerTable : public Handle<PeerTableObject> {
 public:
  PeerTable(uint32_t count, const std::optional<Gpu>& gpu);
};
class QueuePool : public Handle<QueuePoolObject> {
 public:
  QueuePool(const Device& device, size_t chunk_bytes, uint32_t endpoints_per_register);
};
class SharedCompletions : public Handle<CompletionsObject> {
 public:
  SharedCompletions(const Device& device, uint32_t depth, uint32_t max_queues, const std::optional<Gpu>& gpu);
};

}  // namespace warpverbs::python
