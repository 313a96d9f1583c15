#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A packet, and the file that came with it.
struct Packet {
  std::vector<uint8_t> bytes;
  host::FileDescriptor file{};
};

/// Connects to a Unix socket of packets.
///
/// @return  0 or an errno value
int ConnectPackets(const std::string& path, host::FileDescriptor& socket);

/// Listens on a path, which must not exist; only the owner may connect. Accepting does not block.
///
/// @return  0 or an errno value
int ListenForPackets(const std::string& path, host::FileDescriptor& socket);

/// Sends a packet, with a file unless that is -1.
///
/// @return  0 or an errno value
int SendPacket(int socket, std::span<const uint8_t> bytes, int file = -1);

/// Receives a packet without waiting. Files beyond one are closed.
///
/// @return  0; EAGAIN: there is none; EPIPE: the peer has gone; EMSGSIZE: it is too long; another errno value
int ReceivePacket(int socket, Packet& packet);

}  // namespace warpverbs::inline v0_2::gpuio
