#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// The link layer of InfiniBand: the header that routes a packet within a subnet, and the CRC of a link.
namespace softhca {

inline constexpr size_t kLocalRouteBytes = 8;  ///< size of the local route header
inline constexpr size_t kVcrcBytes = 2;

inline constexpr uint16_t kFirstMulticastLid = 0xc000;
inline constexpr uint16_t kPermissiveLid = 0xffff;

/// Returns whether packets to a LID go to the members of a multicast group.
constexpr bool IsMulticastLid(uint16_t lid) { return lid >= kFirstMulticastLid && lid != kPermissiveLid; }

/// Contents of a local route header (LRH). A service level has the virtual lane of its lower three bits, as
/// subnet managers set ports with eight data lanes by default.
struct LocalRoute {
  uint16_t source = 0, destination = 0;  ///< LIDs
  uint8_t service_level = 0;             ///< 4 bits

  friend bool operator==(const LocalRoute&, const LocalRoute&) = default;
};

/// Writes the header.
///
/// @param grh           whether a GRH follows; otherwise it is the base transport header
/// @param bytes_behind  from the end of this header to the end of the ICRC, a multiple of four
/// @pre     `out` has kLocalRouteBytes
/// @source  IBTA 1.4, 7.7
void PutLocalRoute(const LocalRoute& route, bool grh, size_t bytes_behind, std::span<uint8_t> out);

/// A header that was received.
struct ReceivedRoute {
  LocalRoute route;
  bool grh = false;
};

/// Reads the header of a whole packet, from the header to the VCRC.
///
/// @return  nothing for another version or length than the packet's, and for packets without a base header
std::optional<ReceivedRoute> TakeLocalRoute(std::span<const uint8_t> packet);

/// Computes the variant CRC.
///
/// @param bytes  from the local route header to the ICRC
/// @return       the value as a host-order integer; the packet has its lower byte first
/// @source  IBTA 1.4, 7.8.2
uint16_t Vcrc(std::span<const uint8_t> bytes);

}  // namespace softhca
