#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "warpverbs/host/gid.hpp"
#include "warpverbs/mlx5/commands.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// What a peer needs to connect to an endpoint; travels as checked bytes or as one word of text.
struct WARPVERBS_EXPORT EndpointInfo {
  static constexpr uint16_t kVersion = 1;
  static constexpr size_t kBytes = 48;

  uint32_t qpn = 0;
  uint32_t psn = 0;  ///< number of the first packet that this endpoint sends
  LinkLayer link_layer = LinkLayer::kEthernet;
  GidType gid_type = GidType::kRoceV2;
  Gid gid{};
  uint16_t lid = 0;  ///< 0 on Ethernet
  mlx5::Mtu mtu = mlx5::Mtu::k1024;
  uint8_t max_reads_out = 0;  ///< reads and atomics that this endpoint may have outstanding
  uint8_t max_reads_in = 0;   ///< reads and atomics that it serves at a time

  friend bool operator==(const EndpointInfo&, const EndpointInfo&) = default;

  /// @errors  Error: a field is out of range
  void Check() const;

  /// Writes magic, version, length, fields in network order, CRC-32.
  std::array<uint8_t, kBytes> ToBytes() const;

  /// @errors  Error: too short or too long, not of this library, of another version, damaged, or out of range
  static EndpointInfo FromBytes(std::span<const uint8_t> bytes);

  /// Writes ToBytes() in lower-case hexadecimal.
  std::string Serialize() const;

  /// @errors  Error, as FromBytes()
  static EndpointInfo Parse(std::string_view text);
};

/// Computes the CRC-32 of Ethernet and zlib.
WARPVERBS_EXPORT uint32_t Crc32(std::span<const uint8_t> bytes);

}  // namespace warpverbs::inline v0_2::host
