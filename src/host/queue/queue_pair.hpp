#pragma once

#include <cstdint>

#include "device/devx_object.hpp"
#include "endpoint/path.hpp"

namespace warpverbs::inline v0_2::host {

/// Memory, queues and options that a queue pair is created with.
struct QueuePairConfig {
  uint32_t pdn = 0;
  uint32_t cqn = 0;
  uint32_t receive_cqn = 0;
  uint32_t user_index = 0;  ///< identifies the queue pair in its CQEs
  uint32_t uar_page = 0;
  uint32_t umem_id = 0;
  uint64_t queues_offset = 0;  ///< in the umem: the receive queue, followed by the send queue
  uint64_t dbr_offset = 0;
  uint32_t depth = 1;           ///< send queue, in WQEBBs; a power of two
  uint32_t receive_depth = 0;   ///< in WQEs; 0: no receive queue, else a power of two
  uint32_t receive_stride = 0;  ///< bytes of a receive WQE; a power of two
  bool wait_on_cq = false;      ///< allows WAIT
  mlx5::TimestampFormat timestamp_format = mlx5::TimestampFormat::kFreeRunning;
};

/// Operations that the peer may do on memory of this side, if the region's rkey allows them as well.
struct RemoteRights {
  bool read = true;
  bool write = true;
  mlx5::AtomicMode atomic = mlx5::AtomicMode::kNone;
};

/// The sequence numbers and limits that both sides must agree on.
struct Session {
  uint32_t peer_qpn = 0;
  uint32_t send_psn = 0;
  uint32_t receive_psn = 0;
  uint8_t reads_out = 0;  ///< no more than the peer serves
  uint8_t reads_in = 0;
  uint32_t log_max_message = 0;  ///< log2 of the device's longest message in bytes; firmware rejects more
};

/// A reliable-connected queue pair.
class QueuePair {
 public:
  /// @errors  Error
  QueuePair(ibv_context* context, const QueuePairConfig& config);

  uint32_t qpn() const { return qp_.number(); }

  // The transitions of a connection, to be called in this order. Each throws Error.
  void ToInit(uint8_t port, uint16_t pkey_index, const RemoteRights& rights);
  void ToRtr(const Path& path, const Session& session, const RetryConfig& retry);
  void ToRts(const Session& session, const RetryConfig& retry);

  /// Moves to ERROR from any state except RESET. Outstanding work requests complete as flushed.
  ///
  /// @errors  Error
  void ToError();

  /// Moves to RESET from any state. Discards outstanding work requests: none completes after this returns.
  ///
  /// @errors  Error
  void ToReset();

  /// Queries the firmware, which takes about 100 us.
  ///
  /// @errors  Error
  mlx5::QpState State() const;

  mlx5dv_devx_obj* object() const { return qp_.object(); }

 private:
  DevxObject qp_;
};

}  // namespace warpverbs::inline v0_2::host
