#include "wire/media/socket.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "wire/address_block.hpp"
#include "wire/frame.hpp"

namespace softhca {
namespace {

constexpr size_t kIpv4Start = 12;  // offset of the IPv4 address in a GID
constexpr int kBufferBytes = 16 << 20;
constexpr size_t kDestinationLidAt = 2, kSourceLidAt = 6;  // offsets in the local route header

/// Returns a field of a frame; 0 if the frame is shorter.
uint16_t Read16(std::span<const uint8_t> frame, size_t at) {
  return frame.size() < at + 2 ? uint16_t{0} : static_cast<uint16_t>(frame[at] << 8 | frame[at + 1]);
}

Mac MacAt(std::span<const uint8_t> frame, size_t at) {
  Mac mac{};
  if (frame.size() >= at + mac.size())
    std::copy_n(frame.begin() + static_cast<ptrdiff_t>(at), mac.size(), mac.begin());
  return mac;
}

void SetBuffer(int fd, int forced, int allowed) {
  if (setsockopt(fd, SOL_SOCKET, forced, &kBufferBytes, sizeof kBufferBytes) == 0) return;
  setsockopt(fd, SOL_SOCKET, allowed, &kBufferBytes, sizeof kBufferBytes);  // up to the system's limit
}

}  // namespace

SocketAddress ToSocketAddress(const Gid& gid, uint16_t port, uint32_t scope) {
  SocketAddress address{};
  if (IsIpv4(gid)) {
    address.v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
    std::memcpy(&address.v4.sin_addr, gid.data() + kIpv4Start, sizeof address.v4.sin_addr);
    address.bytes = sizeof address.v4;
  } else {
    address.v6 = {};
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
    std::memcpy(&address.v6.sin6_addr, gid.data(), gid.size());
    if (IsLinkLocal(gid)) address.v6.sin6_scope_id = scope;
    address.bytes = sizeof address.v6;
  }
  return address;
}

Gid ToGid(const SocketAddress& address) {
  Gid gid{};
  if (address.any.sa_family == AF_INET) {
    gid[10] = gid[11] = 0xff;
    std::memcpy(gid.data() + kIpv4Start, &address.v4.sin_addr, sizeof address.v4.sin_addr);
  } else {
    std::memcpy(gid.data(), &address.v6.sin6_addr, gid.size());
  }
  return gid;
}

std::string ToString(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (IsIpv4(gid)) {
    inet_ntop(AF_INET, gid.data() + kIpv4Start, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

Descriptor TryOpenSocket(int family, int type, int protocol) {
  Descriptor socket(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
  if (!socket) return socket;
  SetBuffer(socket.get(), SO_RCVBUFFORCE, SO_RCVBUF);
  SetBuffer(socket.get(), SO_SNDBUFFORCE, SO_SNDBUF);
  return socket;
}

Descriptor OpenSocket(int family, int type, int protocol) {
  Descriptor socket = TryOpenSocket(family, type, protocol);
  if (!socket) RefuseSocket("cannot create a socket", "raw sockets need CAP_NET_RAW");
  return socket;
}

void RefuseSocket(const std::string& attempt, const std::string& remedy) {
  throw CommandError(mlx5::CommandStatus::kBadSystemState,
                     attempt + ": " + std::strerror(errno) + "; " + remedy);
}

Mac DestinationMac(std::span<const uint8_t> frame, mlx5::PortType link) {
  return link == mlx5::PortType::kInfiniBand ? address_block::MacOfLid(Read16(frame, kDestinationLidAt))
                                             : MacAt(frame, 0);
}

Mac SourceMac(std::span<const uint8_t> frame, mlx5::PortType link) {
  return link == mlx5::PortType::kInfiniBand ? address_block::MacOfLid(Read16(frame, kSourceLidAt))
                                             : MacAt(frame, sizeof(Mac));
}

uint16_t EtherType(std::span<const uint8_t> frame) {
  return frame.size() < kEthernetHeaderBytes ? uint16_t{0} : Read16(frame, 12);
}

bool IsGroupFrame(std::span<const uint8_t> frame, mlx5::PortType link) {
  if (link == mlx5::PortType::kInfiniBand) return IsMulticastLid(Read16(frame, kDestinationLidAt));
  return !frame.empty() && (frame[0] & 1) != 0;
}

bool IsLinkLocal(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

}  // namespace softhca
