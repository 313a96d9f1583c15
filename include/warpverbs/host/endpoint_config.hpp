#pragma once

#include <cstdint>
#include <optional>

#include "warpverbs/host/completion_queue.hpp"
#include "warpverbs/host/doorbell_mode.hpp"
#include "warpverbs/host/path.hpp"
#include "warpverbs/host/queue_memory.hpp"
#include "warpverbs/host/queue_pair.hpp"

namespace warpverbs::host {

class DoorbellThread;
class EventThread;
class PeerTable;
class QueuePool;
class SharedCompletions;

/// All that may be chosen about an endpoint. The defaults work on any fabric.
struct EndpointConfig {
  uint32_t depth = 128;  ///< of the send queue, in WQEBBs (64 B); rounded up to a power of two, at most 32768
  CqMode cq_mode = CqMode::kCollapsed;
  SharedCompletions* completions =
      nullptr;                            ///< complete on this ring, whatever cq_mode says; must outlive all
  QueuePool* pool = nullptr;              ///< shares memory and doorbell registers; nullptr: all of its own
  uint32_t receive_depth = 0;             ///< in receives; rounded up as depth is. 0: no receive queue
  uint32_t receive_scatter = 1;           ///< buffers that one receive may have; rounded up to a power of two
  std::optional<bool> dump_after_read{};  ///< posters shall follow a read by a DUMP of its data. Empty: if a
                                          ///< completion may overtake data on their way to the GPU
  bool wait_on_cq = false;                ///< WAIT may be posted
  const Gpu* gpu = nullptr;               ///< whose kernels post; nullptr: threads of the CPU post
  Placement placement = Placement::kProbe;
  bool over_pcie = false;  ///< the NIC reaches queues in GPU memory over PCIe, as their data: see Access
  DoorbellMode doorbell = DoorbellMode::kAuto;
  DoorbellThread* doorbell_thread =
      nullptr;                    ///< rings where the host does; nullptr: one of its own. A thread
                                  ///< is busy while doorbells come: let many endpoints share
  EventThread* events = nullptr;  ///< tells of events of the port, the device and the queues: see
                                  ///< Endpoint::AbortWord(). nullptr: nobody listens. Must outlive all
  PeerTable* peers = nullptr;     ///< where kernels read whether the peer is connected; must outlive all
  uint32_t peer_rank = 0;         ///< the peer's place there
  uint8_t port = 0;               ///< 0: the first active one
  int gid_index = -1;             ///< -1: the best by BestGid(), which ConnectAll() betters by BestPair()
  std::optional<Gid> peer_gid{};  ///< an address of the peer, if known: the GID is chosen to suit it
  uint16_t pkey_index = 0;        ///< InfiniBand partition, in the port's table
  std::optional<uint32_t> psn{};  ///< of the first packet, 24 bits, after each Reset() too. Empty: random
  bool remote_read = true;        ///< the peer may read; a region's rkey must allow it too
  bool remote_write = true;
  bool remote_atomic = true;  ///< where the device has atomics
  PathConfig path{};
  RetryConfig retry{};
};

}  // namespace warpverbs::host
