#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// IP and Ethernet address of a port.
struct WireAddress {
  Gid gid{};
  Mac mac{};
};

/// Resolves IP addresses to Ethernet addresses, by ARP and IPv6 neighbour discovery, where no kernel does.
/// Answers other machines' requests too.
///
/// @source  RFC 826; RFC 4861
class Neighbours {
 public:
  using Send = std::function<void(std::span<const uint8_t> frame)>;

  Neighbours(std::vector<WireAddress> own, Send send) : own_(std::move(own)), send_(std::move(send)) {}

  /// Returns the Ethernet address of an IP address; nothing if it is not known yet.
  std::optional<Mac> Find(const Gid& gid) const;
  /// Sends a request for an address; Take() receives the answer.
  void Ask(const Gid& gid) const;

  /// Handles an ARP or neighbour discovery frame: learns from it, and answers it.
  ///
  /// @return  false if the frame is of another protocol
  bool Take(std::span<const uint8_t> frame);

 private:
  /// Bounds the memory that frames with invented addresses can take. Forgotten addresses are asked for again.
  static constexpr size_t kMaxKnown = 4096;

  void Learn(const Gid& gid, const Mac& mac);
  void TakeArp(std::span<const uint8_t> body);
  void TakeDiscovery(std::span<const uint8_t> packet);
  const WireAddress* FindOwn(const Gid& gid) const;

  std::vector<WireAddress> own_;
  Send send_;
  std::map<Gid, Mac> known_;
};

}  // namespace softhca
