#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "core/config.hpp"
#include "wire/media/descriptor.hpp"

/// Loopback addresses, LIDs and MACs that a process gives to ports without an interface.
///
/// Port p of device d in block b has IPv4 address 127.83.0.0 + 32 b + 2 d + p - 1, on InfiniBand that number
/// 32 b + 2 d + p - 1 as its LID, and MAC 02:53:48:bb:bb:dp. Each follows from the other, so neither a lookup
/// protocol nor a subnet manager is needed.
namespace softhca::address_block {

inline constexpr uint32_t kFirst = 1, kLast = 1535;   ///< later blocks would have multicast LIDs
inline constexpr uint32_t kDevices = 16, kPorts = 2;  ///< that a block has addresses for

/// @param port  from 1; 0 for the device as a whole
Mac MacOf(uint32_t block, uint32_t device, uint32_t port);
Gid Ipv4GidOf(uint32_t block, uint32_t device, uint32_t port);
uint16_t LidOf(uint32_t block, uint32_t device, uint32_t port);

/// @return  nothing if the address is not in a block
std::optional<uint32_t> BlockOf(const Gid& ipv4);
std::optional<Mac> MacOf(const Gid& ipv4);

Mac MacOfLid(uint16_t lid);

}  // namespace softhca::address_block

namespace softhca {

/// Exclusive claim on a block of addresses on this host. A claim consists of abstract Unix sockets, so it
/// leaves nothing behind, however the process ends.
///
/// The launcher reserves a block for its program. The first process that opens a device uses it, and keeps it
/// even if the launcher dies; every further process claims another block.
class BlockClaim {
 public:
  BlockClaim() = default;

  /// Reserves a free block.
  ///
  /// @errors  std::runtime_error: all blocks are taken
  static BlockClaim Reserve();
  /// Uses the block that a launcher has reserved, or claims another one if a process uses it already or has
  /// left a forked child with its sockets.
  ///
  /// @errors  std::runtime_error: all blocks are taken
  static BlockClaim Use(uint32_t reserved);

  /// Returns a number for the process, of any user, that uses a block. No later process will have the number.
  /// 0: no process uses the block.
  ///
  /// @return  nothing if the process cannot be determined now
  static std::optional<uint64_t> UserOf(uint32_t block);

  /// Returns whether a program of another user has claimed a block.
  static bool IsOfAnotherUser(uint32_t block);

  uint32_t block() const { return block_; }

 private:
  BlockClaim(uint32_t block, Descriptor socket) : block_(block), socket_(std::move(socket)) {}

  uint32_t block_ = 0;
  Descriptor socket_;
};

}  // namespace softhca
