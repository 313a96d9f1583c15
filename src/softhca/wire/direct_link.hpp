#pragma once

#include <vector>

#include "core/link.hpp"

namespace softhca {

/// Delivers between queue pairs of one process, on the same device or on another one, without packets.
class DirectLink : public Link {
 public:
  explicit DirectLink(std::vector<Hca*> devices) : devices_(std::move(devices)) {}

  Response Deliver(const QueuePair& from, const Request& request) override;

 private:
  /// The device whose port has the address that `from` sends to; null if there is none.
  Hca* Destination(const QueuePair& from) const;

  std::vector<Hca*> devices_;
};

}  // namespace softhca
