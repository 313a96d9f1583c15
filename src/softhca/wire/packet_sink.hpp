#pragma once

#include <cstdint>
#include <span>

#include "core/qp.hpp"
#include "dma/bytes.hpp"
#include "wire/packet.hpp"

namespace softhca {

/// A part of a message that lies in pieces.
struct Gather {
  std::span<const Bytes> pieces{};
  uint64_t offset = 0;  ///< of the part in the message
  uint32_t bytes = 0;   ///< of the part
};

/// Sends packets on behalf of connected queue pairs, along the path that they were given.
class PacketSink {
 public:
  virtual ~PacketSink() = default;

  /// Reads the payload before it returns. `packet.dest_qpn` is filled in.
  ///
  /// @return  false if the payload's memory is gone: nothing was sent
  virtual bool Send(const QueuePair& from, Packet packet, const Gather& payload) = 0;
};

}  // namespace softhca
