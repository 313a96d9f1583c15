#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/link.hpp"

namespace softhca {

/// Delivers requests between queue pairs of one process, on the same or different devices, as whole messages.
///
/// A trial handed packets to the peer instead, by PacketRequester and PacketResponder without frames. It
/// would leave one implementation of RC, but a write of 64 KiB then took two to three times as long, and every
/// packet to or from a GPU would be a call of its driver: see docs/performance.md.
class MessageLink : public Link {
 public:
  explicit MessageLink(std::vector<Hca*> devices) : devices_(std::move(devices)) {}

  Response Deliver(const QueuePair& from, const Request& request) override;

 private:
  /// A port of one of the devices, and the RoCE version of its packets.
  struct Place {
    Hca* device;
    uint8_t port;
    mlx5::RoceVersion version;
    friend bool operator==(const Place&, const Place&) = default;
  };

  /// Returns the place of `from`.
  static Place Here(const QueuePair& from);
  /// Returns the place that `from` sends to; nothing if no port has that address.
  std::optional<Place> There(const QueuePair& from) const;

  std::vector<Hca*> devices_;
};

}  // namespace softhca
