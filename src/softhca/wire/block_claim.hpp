#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "wire/media/descriptor.hpp"

namespace softhca {

/// A block of addresses that nobody else on this host has, as long as the claim lives. It consists of
/// abstract Unix sockets, so that nothing is left behind by whatever end.
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

  /// Tells which process uses a block, as a number that no later one will have; 0: none.
  ///
  /// @return  nothing if that cannot be told now
  static std::optional<uint64_t> UserOf(uint32_t block);

  uint32_t block() const { return block_; }

 private:
  BlockClaim(uint32_t block, Descriptor socket) : block_(block), socket_(std::move(socket)) {}

  uint32_t block_ = 0;
  Descriptor socket_;
};

}  // namespace softhca
