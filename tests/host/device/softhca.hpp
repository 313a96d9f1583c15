#pragma once

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <stdexcept>
#include <string>

#include "softhca_control.h"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// softhca's failures and events on demand.
namespace warpverbs::inline v0_2::host {

template <class Function, class... Arguments>
void Order(const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is not exported");
  if (function(arguments...) != 0) throw std::runtime_error(std::string(name) + " failed");
}

inline void SetLink(const Device& device, bool up, uint8_t port = 1) {
  Order<decltype(softhca_set_link)>("softhca_set_link", device.name().c_str(), port, up ? 1 : 0);
}

inline void Raise(const Device& device, ibv_event_type type, uint8_t port = 0) {
  Order<decltype(softhca_raise_event)>("softhca_raise_event", device.name().c_str(), type, port);
}

inline void FailCq(const Device& device, uint32_t cqn) {
  Order<decltype(softhca_fail_cq)>("softhca_fail_cq", device.name().c_str(), cqn);
}

inline void Hold(const Endpoint& endpoint, bool held) {
  Order<decltype(softhca_hold)>("softhca_hold", endpoint.device().name().c_str(), endpoint.qpn(),
                                held ? 1 : 0);
}

inline void Force(const Endpoint& endpoint, uint32_t index, mlx5::Syndrome syndrome) {
  Order<decltype(softhca_force_syndrome)>("softhca_force_syndrome", endpoint.device().name().c_str(),
                                          endpoint.qpn(), index, static_cast<uint8_t>(syndrome), uint8_t{0});
}

}  // namespace warpverbs::inline v0_2::host
