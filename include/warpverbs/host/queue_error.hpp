#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "warpverbs/host/completion_queue.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/event.hpp"

namespace warpverbs::host {

/// Why a send or a receive queue failed.
struct QueueError {
  uint32_t qpn = 0;
  std::optional<EndpointInfo> peer{};  ///< none: the queue pair was not connected
  CqMode cq_mode = CqMode::kCollapsed;
  bool receiving = false;  ///< a receive failed; opcode then says nothing
  uint8_t syndrome = 0;    ///< mlx5::Syndrome; 0: the NIC reported nothing: an event, or a poster gave up
  uint8_t vendor_syndrome = 0;
  uint8_t opcode = 0;            ///< mlx5::WqeOpcode of the failed WQE
  uint16_t wqe_index = 0;        ///< of the failed WQE, modulo 2^16
  std::optional<Event> event{};  ///< that aborted the endpoint's waits, and may be why
  bool disconnected = false;     ///< Disconnect() was called: what failed by it is only flushed

  /// One sentence: which operation to which peer failed and why, then what to check.
  std::string What() const;
};

}  // namespace warpverbs::host
