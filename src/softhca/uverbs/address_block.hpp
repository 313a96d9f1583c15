#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "wire/media/descriptor.hpp"

namespace softhca {

/// The loopback addresses and MACs that a process may give to its ports.
///
/// Block b has 127.83.0.0 + 32 b + 2 * device + port - 1, and 02:53:48:bb:bb:dp, where d is the device and p
/// the port. So one can be told from the other.
namespace address_block {

inline constexpr uint32_t kFirst = 1, kLast = 2047;

/// @param port  from 1; 0 stands for the device as a whole
Mac MacOf(uint32_t block, uint32_t device, uint32_t port);
Gid Ipv4GidOf(uint32_t block, uint32_t device, uint32_t port);

}  // namespace address_block

/// A block that nobody else on this host has, as long as the claim lives. It consists of abstract Unix
/// sockets, so that nothing is left behind by whatever end.
///
/// The launcher reserves a block for its program. The first process that opens a device uses it, and keeps it
/// even if the launcher dies; every further one claims another.
class BlockClaim {
 public:
  BlockClaim() = default;

  /// Reserves a free block.
  ///
  /// @errors  std::runtime_error: a sentence
  static BlockClaim Reserve();
  /// Uses the block that a launcher has reserved; if another process does already, claims another one.
  ///
  /// @errors  std::runtime_error: a sentence
  static BlockClaim Use(uint32_t reserved);

  uint32_t block() const { return block_; }

 private:
  BlockClaim(uint32_t block, Descriptor socket) : block_(block), socket_(std::move(socket)) {}

  uint32_t block_ = 0;
  Descriptor socket_;
};

}  // namespace softhca
