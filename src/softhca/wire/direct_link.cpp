#include "wire/direct_link.hpp"

#include <algorithm>

#include "core/hca.hpp"
#include "core/responder.hpp"

namespace softhca {
namespace {

bool HasAddress(const PortConfig& port, const AddressPath& path) {
  if (!path.grh) return port.lid == path.remote_lid;
  return std::any_of(port.gids.begin(), port.gids.end(),
                     [&](const GidEntry& entry) { return entry.gid == path.remote_gid; });
}

bool IsUp(const QueuePair& qp) { return qp.hca->config().ports.at(qp.attributes.port - 1).up; }

}  // namespace

Hca* DirectLink::Destination(const QueuePair& from) const {
  for (Hca* device : devices_) {
    const auto& ports = device->config().ports;
    if (std::any_of(ports.begin(), ports.end(),
                    [&](const PortConfig& port) { return HasAddress(port, from.attributes.path); })) {
      return device;
    }
  }
  return nullptr;
}

Response DirectLink::Deliver(const QueuePair& from, const Request& request) {
  constexpr Response kSilence{.kind = Response::Kind::kSilence};
  Hca* const device = Destination(from);
  QueuePair* const target = device == nullptr ? nullptr : device->FindQp(from.attributes.remote_qpn);
  if (target == nullptr || target->attributes.port == 0) return kSilence;
  // A peer answers only the address it is connected to.
  if (!IsUp(from) || !IsUp(*target) || Destination(*target) != from.hca) return kSilence;
  return Respond(*target, from, request);
}

}  // namespace softhca
