#pragma once

#include <cstdint>
#include <string>

#include "warpverbs/mlx5/commands.hpp"

struct ibv_context;

namespace warpverbs::host {

/// What a device can do, as far as this library asks.
struct Capabilities {
  std::string firmware;            ///< "28.39.1002"
  uint32_t max_send_wqebbs = 0;    ///< deepest send queue
  uint32_t max_wqe_bytes = 0;      ///< largest work queue entry
  uint32_t max_receive_bytes = 0;  ///< largest entry of a receive queue
  uint32_t max_cqes = 0;           ///< deepest completion queue
  uint32_t log_max_message = 0;    ///< log2 of the longest message in bytes
  uint8_t max_reads_out = 0;       ///< reads and atomics that a queue pair may have under way
  uint8_t max_reads_in = 0;        ///< and may serve at once
  uint32_t atomic_operations = 0;  ///< bits of mlx5::AtomicOperation
  uint32_t atomic_sizes = 0;       ///< sum of the sizes in bytes: 4 | 8; no 8 where they are big-endian only
  bool cqe_user_index = false;     ///< completions name their queue pair by its user index
  bool cross_channel = false;      ///< a queue can wait for the completions of another
  mlx5::TimestampFormat timestamp_format = mlx5::TimestampFormat::kFreeRunning;
  uint16_t min_udp_source_port = 0xc000;  ///< of RoCE v2
  uint16_t max_udp_source_port = 0xffff;

  bool atomics() const { return atomic_operations != 0 && atomic_sizes != 0; }
};

/// Reads a device's capabilities.
///
/// @param context  opened with DEVX
/// @errors  Error: the device does not answer its general or atomic page; without a RoCE page, defaults stay
Capabilities QueryCapabilities(ibv_context* context);

}  // namespace warpverbs::host
