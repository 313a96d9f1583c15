#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/qp.hpp"
#include "dma/device_memory.hpp"
#include "wire/packet.hpp"

namespace softhca {

/// A part of a message that is scattered over pieces of memory.
struct Gather {
  std::span<const Bytes> pieces{};
  uint64_t offset = 0;  ///< offset of the part in the message
  uint32_t bytes = 0;   ///< size of the part
};

/// Answer of PacketSink::PeerStalledAt() for an engine that is stopped, or that cannot take more frames now.
inline constexpr uint64_t kStoppedPeer = UINT64_MAX;

/// Sends packets for connected queue pairs, along their path.
class PacketSink {
 public:
  virtual ~PacketSink() = default;

  /// Sends a packet. Reads the payload before it returns.
  ///
  /// @pre     `packet.dest_qpn` is filled in
  /// @return  false if the payload's memory is gone: nothing was sent
  virtual bool Send(const QueuePair& from, Packet packet, const Gather& payload) = 0;

  /// Returns how often the peer's engine has slept, if it is not asleep, see EngineThreads::StalledAt().
  /// Returns kStoppedPeer if it is stopped, or if frames for it wait here.
  virtual std::optional<uint64_t> PeerStalledAt(const QueuePair& /*from*/) { return {}; }
};

}  // namespace softhca
