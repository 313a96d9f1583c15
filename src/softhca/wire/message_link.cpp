#include "wire/message_link.hpp"

#include <algorithm>

#include "core/hca.hpp"
#include "core/message_responder.hpp"
#include "core/packets.hpp"
#include "wire/address_table.hpp"

namespace softhca {
namespace {

/// Returns the RoCE version of a queue pair's packets. A GID receives packets of its own version only;
/// InfiniBand has a single version.
mlx5::RoceVersion VersionOf(const QueuePair& qp) {
  if (qp.hca->config().link == mlx5::PortType::kInfiniBand) return mlx5::RoceVersion::kV1;
  return PortOf(qp).config().gids.at(qp.attributes.path.local_gid_index).version;
}

bool HasAddress(const PortConfig& port, mlx5::PortType link, const AddressPath& path) {
  if (link == mlx5::PortType::kInfiniBand && port.lid != path.remote_lid) return false;
  if (!path.grh) return true;
  return std::any_of(port.gids.begin(), port.gids.end(),
                     [&](const GidEntry& entry) { return entry.gid == path.remote_gid; });
}

}  // namespace

MessageLink::Place MessageLink::Here(const QueuePair& from) {
  return {from.hca, from.attributes.port, VersionOf(from)};
}

std::optional<MessageLink::Place> MessageLink::There(const QueuePair& from) const {
  for (Hca* device : devices_) {
    const auto& ports = device->config().ports;
    const auto found = std::find_if(ports.begin(), ports.end(), [&](const PortConfig& port) {
      return HasAddress(port, device->config().link, from.attributes.path);
    });
    if (found != ports.end()) {
      return Place{device, static_cast<uint8_t>(found - ports.begin() + 1), VersionOf(from)};
    }
  }
  return std::nullopt;
}

Response MessageLink::Deliver(const QueuePair& from, const Request& request) {
  const std::optional<Place> there = There(from);
  QueuePair* const target = there ? there->device->FindQp(from.attributes.remote_qpn) : nullptr;
  // A queue pair that does not listen may have neither port nor address yet.
  if (target == nullptr || !Listens(*target) || !PortOf(from).config().up || !PortOf(*target).config().up)
    return kSilence;
  if (!SharePartition(PkeyOf(from), PkeyOf(*target))) return kSilence;
  const bool xrc = from.config.xrc == XrcRole::kInitiator;
  if (target->config.xrc != (xrc ? XrcRole::kTarget : XrcRole::kNone)) return kSilence;
  // A peer accepts only what comes to its own port, from the address that it is connected to.
  if (Here(*target) != there || There(*target) != Here(from)) return kSilence;
  const Response response = Respond(*target, {from.qpn, from.next_send_psn, from.attributes.mtu}, request);
  Observer* const observer = from.hca->observer();
  if (observer != nullptr && response.kind == Response::Kind::kAcknowledged) {
    observer->OnMessage(from, *target, request);
  }
  return response;
}

}  // namespace softhca
