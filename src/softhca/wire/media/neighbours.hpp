#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// An address that a port has on a wire of its own.
struct WireAddress {
  Gid gid{};
  Mac mac{};
};

/// Whose Ethernet address an IP address is: asks and answers by ARP and IPv6 neighbour discovery, where no
/// kernel does.
///
/// @source  RFC 826; RFC 4861
class Neighbours {
 public:
  using Send = std::function<void(std::span<const uint8_t> frame)>;

  Neighbours(std::vector<WireAddress> own, Send send) : own_(std::move(own)), send_(std::move(send)) {}

  /// @return  nothing if it is not known yet
  std::optional<Mac> Find(const Gid& gid) const;
  /// Asks everybody; the answer comes by Take().
  void Ask(const Gid& gid) const;

  /// Looks at a frame that has come: learns from it, and answers it.
  ///
  /// @return  whether it was only about addresses
  bool Take(std::span<const uint8_t> frame);

 private:
  void TakeArp(std::span<const uint8_t> body);
  void TakeDiscovery(std::span<const uint8_t> packet);
  const WireAddress* FindOwn(const Gid& gid) const;

  std::vector<WireAddress> own_;
  Send send_;
  std::map<Gid, Mac> known_;
};

}  // namespace softhca
