#pragma once

#include <cstdint>

#include "device/devx_object.hpp"
#include "endpoint/path.hpp"

namespace warpverbs::inline v0_2::host {

/// Where a queue pair lies and what it reports to.
struct QueuePairConfig {
  uint32_t pdn = 0;
  uint32_t cqn = 0;
  uint32_t receive_cqn = 0;
  uint32_t user_index = 0;  ///< names the queue pair in its CQEs
  uint32_t uar_page = 0;
  uint32_t umem_id = 0;
  uint64_t queues_offset = 0;  ///< in the umem: the receive queue, right after it the send queue
  uint64_t dbr_offset = 0;
  uint32_t depth = 1;           ///< send queue, in WQEBBs; a power of two
  uint32_t receive_depth = 0;   ///< in WQEs; 0: no receive queue, else a power of two
  uint32_t receive_stride = 0;  ///< bytes of a receive WQE; a power of two
  bool wait_on_cq = false;      ///< WAIT may be posted
  mlx5::TimestampFormat timestamp_format = mlx5::TimestampFormat::kFreeRunning;
};

/// What the peer may do to memory of this side, if a region's rkey allows it too.
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
  uint8_t reads_out = 0;  ///< at most what the peer serves
  uint8_t reads_in = 0;
  uint32_t log_max_message = 0;  ///< log2 of the device's longest message in bytes; no firmware takes more
};

/// A reliable-connected queue pair.
class QueuePair {
 public:
  /// @errors  Error
  QueuePair(ibv_context* context, const QueuePairConfig& config);

  uint32_t qpn() const { return qp_.number(); }

  // The transitions of a connection, in this order. Each throws Error.
  void ToInit(uint8_t port, uint16_t pkey_index, const RemoteRights& rights);
  void ToRtr(const Path& path, const Session& session, const RetryConfig& retry);
  void ToRts(const Session& session, const RetryConfig& retry);

  /// From any state but RESET. What was posted and is not done completes as flushed.
  ///
  /// @errors  Error
  void ToError();

  /// From any state. What was posted is forgotten, and no CQE comes of it once this returns.
  ///
  /// @errors  Error
  void ToReset();

  /// Asks the firmware; takes some 100 us.
  ///
  /// @errors  Error
  mlx5::QpState State() const;

  mlx5dv_devx_obj* object() const { return qp_.object(); }

 private:
  DevxObject qp_;
};

}  // namespace warpverbs::inline v0_2::host
