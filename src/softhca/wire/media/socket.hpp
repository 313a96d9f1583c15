#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/config.hpp"
#include "wire/media/descriptor.hpp"

/// Helpers for the media that use sockets.
namespace softhca {

/// A socket address with its length.
struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t bytes;
};

/// @param scope  index of the interface; link-local IPv6 addresses need it
SocketAddress ToSocketAddress(const Gid& gid, uint16_t port, uint32_t scope = 0);
Gid ToGid(const SocketAddress& address);
/// Returns the text for messages: "10.0.0.1", "fe80::1".
std::string ToString(const Gid& gid);

/// Opens a socket that neither blocks nor survives an exec, with buffers as large as the system allows.
///
/// @return  none on failure, with errno set
Descriptor TryOpenSocket(int family, int type, int protocol);
/// Does the same, but throws on failure.
///
/// @errors  CommandError
Descriptor OpenSocket(int family, int type, int protocol);

/// Throws a CommandError made of the attempted step, the text for `errno`, and the remedy.
[[noreturn]] void RefuseSocket(const std::string& attempt, const std::string& remedy);

// Fields of the Ethernet header at the start of a frame. On InfiniBand a LID stands for the MAC of its port,
// see wire/address_block.hpp.
Mac DestinationMac(std::span<const uint8_t> frame, mlx5::PortType link = mlx5::PortType::kEthernet);
Mac SourceMac(std::span<const uint8_t> frame, mlx5::PortType link = mlx5::PortType::kEthernet);
uint16_t EtherType(std::span<const uint8_t> frame);
/// Returns whether a frame is for a multicast group.
bool IsGroupFrame(std::span<const uint8_t> frame, mlx5::PortType link = mlx5::PortType::kEthernet);

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr size_t kEthernetHeaderBytes = 14;

bool IsLinkLocal(const Gid& gid);

}  // namespace softhca
