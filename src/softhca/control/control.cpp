#include <algorithm>
#include <cerrno>
#include <limits>

#include "preload/process.hpp"
#include "softhca_control.h"

namespace softhca {
namespace {

/// Calls `change` with a device while the hardware is paused.
///
/// @return  0 or an errno
template <class Change>
int ChangeDevice(const char* name, Change change) {
  if (name == nullptr) return EINVAL;
  Engine* const engine = preload::ProcessEngine();
  if (engine == nullptr) return ENODEV;
  const auto& devices = engine->devices();
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const auto& hca) { return hca->config().name == name; });
  if (found == devices.end()) return ENODEV;
  const auto lock = engine->Pause();
  return change(**found);
}

/// Calls `change` with a queue pair while the hardware is paused.
template <class Change>
int ChangeQp(const char* device, uint32_t qpn, Change change) {
  return ChangeDevice(device, [&](Hca& hca) {
    QueuePair* const qp = hca.FindQp(qpn);
    if (qp == nullptr) return ENOENT;
    change(*qp);
    return 0;
  });
}

}  // namespace
}  // namespace softhca

extern "C" {
#pragma GCC visibility push(default)

int softhca_force_syndrome(const char* device, uint32_t qpn, uint32_t wqe_index, uint8_t syndrome,
                           uint8_t vendor_syndrome) {
  using namespace softhca;  // NOLINT(google-build-using-namespace): C functions are in no namespace
  if (wqe_index > std::numeric_limits<uint16_t>::max() || syndrome == 0) return EINVAL;
  return ChangeQp(device, qpn, [&](QueuePair& qp) {
    qp.injected_failures[static_cast<uint16_t>(wqe_index)] = {static_cast<mlx5::Syndrome>(syndrome),
                                                              vendor_syndrome};
  });
}

int softhca_hold(const char* device, uint32_t qpn, int hold) {
  return softhca::ChangeQp(device, qpn, [&](softhca::QueuePair& qp) { qp.paused = hold != 0; });
}

int softhca_fail_cq(const char* device, uint32_t cqn) {
  return softhca::ChangeDevice(device, [&](softhca::Hca& hca) {
    softhca::CompletionQueue* const cq = hca.FindCq(cqn);
    if (cq == nullptr) return ENOENT;
    cq->Fail();
    return 0;
  });
}

int softhca_set_link(const char* device, uint8_t port, int up) {
  return softhca::ChangeDevice(device, [&](softhca::Hca& hca) {
    if (port == 0 || port > hca.config().ports.size()) return ENOENT;
    hca.SetLink(port, up != 0);
    return 0;
  });
}

int softhca_raise_event(const char* device, uint32_t type, uint8_t port) {
  using namespace softhca;  // NOLINT(google-build-using-namespace): C functions are in no namespace
  uint32_t index = 0;
  const int error = ChangeDevice(device, [&](Hca& hca) {
    if (port > hca.config().ports.size()) return ENOENT;
    const auto& devices = preload::ProcessEngine()->devices();
    while (devices[index].get() != &hca) ++index;
    return 0;
  });
  if (error == 0) preload::SendAsyncEvent(index, type, port);
  return error;
}

#pragma GCC visibility pop
}
