#pragma once

#include "shared.hpp"
#include "warpverbs/host/endpoint.hpp"

namespace warpverbs::python {

/// An endpoint with all that it needs, and the views that kernels read.
struct EndpointObject {
  EndpointObject(std::shared_ptr<const host::Device> nic, const py::dict& settings);

  /// Stores the views again: a reset changes that of the receives.
  void StoreViews() const;

  static constexpr size_t kReceivesOffset = 128;
  static constexpr size_t kViewBytes = 256;

  std::shared_ptr<const host::Device> device;
  std::optional<Gpu> gpu;
  std::shared_ptr<QueuePoolObject> pool;
  std::shared_ptr<EventThreadObject> events;
  std::shared_ptr<PeerTableObject> peers;
  bool receives = false;
  std::optional<KernelMemory> views;
  std::optional<host::Endpoint> endpoint;
  CallMutex mutex;
};

/// The lock of an endpoint's calls.
class EndpointLock : public CallLock {
 public:
  explicit EndpointLock(EndpointObject& object)
      : CallLock(object.mutex, [&] { return "QP " + std::to_string(object.endpoint->qpn()); }) {}
};

/// What warpverbs.Endpoint is made of.
class Endpoint : public Handle<EndpointObject> {
 public:
  Endpoint(const Device& device, const py::dict& settings);

  /// Calls a function with the endpoint, without the GIL, while no other thread uses the endpoint.
  template <class Function>
  auto Call(const Function& function) const {
    const auto object = Get();
    const py::gil_scoped_release release;
    const EndpointLock lock(*object);
    return function(*object->endpoint);
  }
};

}  // namespace warpverbs::python
