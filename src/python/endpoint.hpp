#pragma once

#include "shared.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/host/completion_channel.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::python {

/// A word that the NIC stores the old values of atomics in.
class FetchedWord {
 public:
  explicit FetchedWord(const host::Device& device);

  device::LocalMemory Local() const;
  const uint64_t& word() const;

 private:
  host::HostPages pages_;
  host::MemoryRegion region_;
};

struct ChannelObject;

/// An endpoint with all that it needs, and the views that kernels read.
struct EndpointObject {
  EndpointObject(std::shared_ptr<const host::Device> nic, const py::dict& settings);

  /// Stores the views again: a reset changes that of the receives.
  void StoreViews() const;

  static constexpr size_t kReceivesOffset = 128;
  static constexpr size_t kViewBytes = 256;

  std::shared_ptr<const host::Device> device;
  std::optional<host::Gpu> gpu;
  std::shared_ptr<QueuePoolObject> pool;
  std::shared_ptr<EventThreadObject> events;
  std::shared_ptr<PeerTableObject> peers;
  std::shared_ptr<CompletionsObject> completions;
  std::shared_ptr<ChannelObject> channel;  ///< tells of its receives, if one watches it
  bool receives = false;
  std::optional<KernelMemory> views;
  std::optional<FetchedWord> fetched;  ///< from the first atomic on
  std::optional<host::Endpoint> endpoint;
  std::optional<host::CompletionAlarm> alarm;
  CallMutex mutex;          // calls, except those of the receive queue
  CallMutex receive_mutex;  // a thread may wait for a message while others send
};

/// The lock of calls that concern the whole endpoint.
class EndpointLock {
 public:
  explicit EndpointLock(EndpointObject& object, host::Deadline deadline = host::Deadline::max())
      : sends_(
            object.mutex, [&] { return NameOf(object); }, deadline),
        receives_(
            object.receive_mutex, [&] { return NameOf(object); }, deadline) {}

 private:
  static std::string NameOf(const EndpointObject& object) {
    return "QP " + std::to_string(object.endpoint->qpn());
  }

  CallLock sends_, receives_;
};

/// What warpverbs.Endpoint is made of.
class Endpoint : public Handle<EndpointObject> {
 public:
  Endpoint(const Device& device, const py::dict& settings);

  /// Calls a function with the endpoint, without the GIL, while no other thread uses the endpoint.
  template <class Function>
  auto Call(const Function& function) const {
    const auto object = Get();
    const GilRelease release;
    const EndpointLock lock(*object);
    return function(*object->endpoint);
  }
};

void BindOperations(py::class_<Endpoint>& endpoint);

}  // namespace warpverbs::python
