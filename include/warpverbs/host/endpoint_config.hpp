#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "warpverbs/host/gid.hpp"
#include "warpverbs/mlx5/commands.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class DoorbellThread;
class EventThread;
class Gpu;
class PeerTable;
class QueuePool;
class SharedCompletions;

/// How completions are reported.
enum class CqMode : uint8_t {
  kRing,       ///< a CQE for each completion: keeps the cause of an error, whatever is flushed behind it
  kCollapsed,  ///< one CQE, always the latest. Less memory; after an error it may show only a flush
};

/// The memory that holds the queues.
enum class Placement : uint8_t {
  kProbe,  ///< memory of the posting GPU if the NIC reaches it there, otherwise host memory
  kHost,   ///< host memory, mapped for the posting GPU
  kGpu,    ///< memory of the posting GPU; fails if the NIC does not reach it
};

/// How a send queue's doorbells reach the NIC. Posters call the same functions in every mode.
enum class DoorbellMode : uint8_t {
  kAuto,       ///< kGpu if the poster reaches the NIC's register, otherwise kHostProxy
  kGpu,        ///< the poster, a GPU or a CPU thread, stores to the NIC's register
  kHostProxy,  ///< the poster stores to a word in host memory; a host thread forwards it to the register
  kHostPosts,  ///< the host thread also copies the WQEs into the queue, so the NIC never reads the poster's
};
WARPVERBS_EXPORT const char* ToString(DoorbellMode mode);

/// Choices about the path to the peer.
struct PathConfig {
  uint8_t traffic_class = 0;  ///< the upper six bits are the DSCP
  uint8_t service_level = 0;  ///< 0..7 on Ethernet, the priority; 0..15 on InfiniBand
  uint8_t hop_limit = 64;
  mlx5::Mtu max_mtu = mlx5::Mtu::k4096;  ///< the path's MTU is the least of this and both ports'
  uint16_t udp_source_port = 0;  ///< RoCE v2: routers hash it to choose among equal paths. 0: automatic
};

/// How long to wait for the peer, and how often to retry.
struct RetryConfig {
  uint8_t ack_timeout = 18;  ///< 4.096 us * 2^n; 18 is 1.07 s; 0 waits forever. 0..31
  uint8_t retry_count = 7;   ///< retries before the work request fails. 0..7
  uint8_t rnr_retry = 7;     ///< retries while the peer has no receive posted; 7 retries forever. 0..7
  /// Pause that this side asks of a peer whose send found no receive; 12 is 0.64 ms. 0..31
  uint8_t min_rnr_timer = 12;
};

/// Settings of an endpoint. Objects it points to must outlive the endpoint.
struct WARPVERBS_EXPORT EndpointConfig {
  uint32_t depth = 128;  ///< send queue, in WQEBBs (64 B); rounded up to a power of two, at most 32768
  CqMode cq_mode = CqMode::kRing;
  /// Depth of the endpoint's own ring (CqMode::kRing), in CQEs: at least that of the send queue, rounded up
  /// as depth is. 0: as deep as the send queue. A deeper ring keeps older completions longer.
  uint32_t cq_depth = 0;
  SharedCompletions* completions = nullptr;  ///< shared ring for the completions; overrides cq_mode
  /// All posters are device::Contended, for a queue that many warps of different blocks share.
  bool contended = false;
  QueuePool* pool = nullptr;     ///< shared memory and doorbell registers; nullptr: the endpoint has its own
  uint32_t receive_depth = 0;    ///< in receives; rounded up as depth is. 0: no receive queue
  uint32_t receive_scatter = 1;  ///< buffers per receive; rounded up to a power of two

  /// Posters follow each read with a DUMP of its data. By default only if a completion can overtake data on
  /// the way to the GPU.
  std::optional<bool> dump_after_read{};
  bool wait_on_cq = false;   ///< WAIT may be posted
  const Gpu* gpu = nullptr;  ///< GPU whose kernels post; nullptr: CPU threads post
  Placement placement = Placement::kProbe;

  /// Alignment of the queue memory's first byte, which is the receive queue's if there is one, or else the
  /// send queue's: a power of two of 4096 to 2^30 bytes. 0: a page of the memory. Not with a pool, which
  /// packs queues. Queues in GPU memory take up to that many bytes more; those in host memory reserve
  /// addresses only.
  size_t queue_alignment = 0;
  bool over_pcie =
      false;  ///< the NIC reaches queues in GPU memory over PCIe, as it does their data: see Access
  DoorbellMode doorbell = DoorbellMode::kAuto;

  /// The thread that rings in the host's modes; nullptr: one of the endpoint's own. A thread is busy while
  /// doorbells come, so let many endpoints share one.
  DoorbellThread* doorbell_thread = nullptr;
  /// Slots whose events Endpoint::Trace() keeps, for SendQueues with device::Traced: rounded up to a power of
  /// two, at most 2^20, 96 bytes of host memory each. Choose at least `depth`. 0: no ring.
  uint32_t trace_slots = 0;
  EventThread* events = nullptr;  ///< listener for the port, device and queues: see Endpoint::AbortWord()
  PeerTable* peers = nullptr;     ///< table that tells kernels whether the peer is connected
  uint32_t peer_rank = 0;         ///< the peer's place in that table
  uint8_t port = 0;               ///< 0: the first active one
  int gid_index = -1;             ///< -1: the best by BestGid(), which ConnectAll() improves by BestPair()
  std::optional<Gid> peer_gid{};  ///< an address of the peer, if known: the GID is chosen to suit it
  uint16_t pkey_index = 0;        ///< InfiniBand partition, in the port's table
  std::optional<uint32_t> psn{};  ///< first packet's number, 24 bits, after each Reset() too. Empty: random
  bool remote_read = true;        ///< the peer may read; a region's rkey must allow it too
  bool remote_write = true;
  bool remote_atomic = true;  ///< has no effect if the device lacks atomics
  PathConfig path{};
  RetryConfig retry{};
};

}  // namespace warpverbs::inline v0_2::host
