#pragma once

#include <cstring>
#include <optional>
#include <span>

#include "devices.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/peer_table.hpp"
#include "warpverbs/host/queue_pool.hpp"

/// What many endpoints share.
namespace warpverbs::python {

/// Memory that the host writes and kernels read: a GPU's, or the host's without one.
class KernelMemory {
 public:
  KernelMemory(const std::optional<Gpu>& gpu, size_t bytes) {
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
  PeerTableObject(uint32_t count, const std::optional<Gpu>& gpu);

  host::PeerTable table;
  KernelMemory view;
};
struct QueuePoolObject {
  std::shared_ptr<const host::Device> device;
  host::QueuePool pool;
};

/// warpverbs.EventThread, PeerTable and QueuePool
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

}  // namespace warpverbs::python
