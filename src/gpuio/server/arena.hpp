#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "warpverbs/transport/memory.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Bytes of a buffer, and the largest part of a file that one disk operation moves.
inline constexpr size_t kChunkBytes = size_t{256} << 10;

/// The server's memory for data on its way: buffers of kChunkBytes, registered with the NICs.
class Arena {
 public:
  /// @param bytes   rounded down to whole buffers, and to 4 buffers at least
  /// @param device, max_nics  as for RdmaTransport
  /// @errors  host::Error: the memory does not exist, or no NIC registers it
  Arena(size_t bytes, int device, uint32_t max_nics);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Takes a buffer.
  ///
  /// @pre  one is free
  uint8_t* Take();
  void Return(uint8_t* buffer) { free_.push_back(buffer); }

  size_t free() const { return free_.size(); }
  size_t buffers() const { return bytes_ / kChunkBytes; }
  std::span<uint8_t> memory() const { return {memory_, bytes_}; }

  /// Returns a part of the memory, as a transport takes it.
  transport::RdmaMemory::MutableView View(uint8_t* data, size_t bytes) const {
    return registration_->CreateMutableView(static_cast<size_t>(data - memory_), bytes);
  }

 private:
  size_t bytes_;
  uint8_t* memory_;
  std::optional<transport::RdmaMemory> registration_;
  std::vector<uint8_t*> free_;
};

}  // namespace warpverbs::inline v0_2::gpuio
