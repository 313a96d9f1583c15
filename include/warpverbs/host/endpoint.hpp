#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/observation.hpp"
#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class CompletionAlarm;
class CompletionChannel;
class Device;
struct LocalAddress;
struct MemoryView;

/// A reliable-connected queue pair whose send queue, and receive queue if it has one, a kernel drives.
///
/// Owns the queues, the doorbell records and the doorbell's mapping. Views stay valid until destruction;
/// kernels that use them must end before. Not thread-safe, except LastError() and LastEvent().
///
/// A forked child may destroy its copies of endpoints, and of the pools, rings and caches that endpoints and
/// their memory come from: that does nothing, and the parent's go on. It may not use them. Its copy of a
/// MemoryRegion shares the NIC's object with the parent's. So leave a child by exec() or _exit().
class WARPVERBS_EXPORT Endpoint {
 public:
  /// @param device  must outlive this
  /// @errors  Error: names the step and the firmware's syndrome
  explicit Endpoint(const Device& device, const EndpointConfig& config = {});
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const Device& device() const;
  uint32_t qpn() const;
  uint8_t port() const;  ///< number in the device, from 1

  /// The source address. Its port's state is that at the endpoint's creation.
  const LocalAddress& address() const;

  /// The connected peer; empty before Connect() and after Reset().
  const std::optional<EndpointInfo>& peer() const;

  /// Whether EndpointConfig determines the source GID, directly or by the peer's.
  bool has_fixed_gid() const;
  uint16_t pkey_index() const;

  /// Sends from another GID of its port, also after a Reset(). Info() then names the new one.
  ///
  /// @param gid   one of Device::Gids()
  /// @param peer  the peer's GID of the best pair, for Describe()
  /// @pre     no Connect() since the last Reset()
  /// @errors  Error: Connect() was called; has_fixed_gid(), and `gid` is another
  void SendFrom(const GidEntry& gid, const Gid& peer);

  /// Returns what the peer needs for its Connect().
  EndpointInfo Info() const;

  /// Takes the queue pair from RESET to RTS; once between resets.
  ///
  /// Sends nothing to the peer; writes posted before the peer connects are retried. Keeps the endpoint's GID:
  /// ConnectAll() chooses the GIDs of both sides.
  ///
  /// @errors  Error: the peer cannot be reached, which leaves the endpoint as it was; the firmware refused a
  ///          step, or this is a second call: call Reset() first; with EndpointConfig::events, the port is
  ///          down, which no event would report any more
  void Connect(const EndpointInfo& peer);

  /// Checks whether Connect() could reach a peer, without touching a queue.
  ///
  /// @errors  Error: it could not, and why
  void CheckPeer(const EndpointInfo& peer) const;

  /// Ends the connection. Reset() and Connect() on both sides begin another; without a connection it does
  /// nothing.
  ///
  /// Outstanding work completes as flushed, on this side at once; the peer's retries run out.
  ///
  /// @pre     kernels may run: their waits return kError
  /// @errors  Error: the firmware refused
  void Disconnect();

  /// Restores a new endpoint's state, from any state: empty queues, no error, no abort, another PSN unless
  /// EndpointConfig::psn gives it, but the same QP number and View().
  ///
  /// The peer must be reset too; then each connects with the other's new Info(). A completion queue that the
  /// firmware stopped stays stopped. A SendQueue or ReceiveQueue from before continues at its old slot: end
  /// it, and make a new one from View().
  ///
  /// @pre     no kernel uses the queues; with shared completions, no GPU uses any queue of the ring
  /// @errors  Error: the firmware refused; a poster that was killed holds the ring of shared completions
  void Reset();

  /// Queries the queue pair's state from the firmware.
  ///
  /// @errors  Error
  mlx5::QpState State() const;

  /// Returns why the send or the receive queue failed; empty if neither is known to have failed.
  ///
  /// Of two reasons it returns the one that is not merely a flush. It takes no poster's lock, and marks the
  /// peer as failed in EndpointConfig::peers. An event that aborted the waits comes with it, or is the reason
  /// if the queues have not failed.
  ///
  /// If nothing is reported on a connected endpoint, it queries the state from the firmware: a queue pair
  /// that refused a request of its peer is in the error state without a completion that says so. So do not
  /// poll by this: the query is a firmware command of some 10 us or more, and the error state costs another 1
  /// ms. A query that fails reports nothing.
  ///
  /// @pre     any thread may call it while kernels run, but none during Connect() or Reset()
  /// @errors  Error: the queues are on a GPU whose driver has failed
  std::optional<QueueError> LastError() const;

  /// Returns the newest event of the port, the device or the queues since the last Reset(), of any kind;
  /// empty without EndpointConfig::events. Any thread may call it.
  std::optional<Event> LastEvent() const;

  /// The word for device::WaitLimit::abort. Kernels reach it.
  ///
  /// An event that leaves nothing to wait for sets it: a port that stays down (EventConfig), a failed device,
  /// a queue that the firmware stopped. Every wait with this word then ends with kAborted. Reset() clears
  /// it, unless the firmware stopped a completion queue.
  const uint64_t* AbortWord() const;

  /// Sets the abort word; any thread may call it.
  void Abort();

  /// Returns what a kernel needs to post and to see completions, by value.
  device::QueueView View() const;

  /// Returns what a kernel needs to post receives and to see them complete. Call it again after a Reset().
  ///
  /// @errors  Error: the endpoint has no receive queue
  device::ReceiveQueueView ReceiveView() const;

  /// Returns the ring of CQEs, for code that takes them in order itself. Waits by View() take nothing away.
  ///
  /// @errors  Error: the completion queue is collapsed; View() has its one CQE
  device::CqView CompletionView() const;

  /// Lets completions of the send or the receive queue wake a sleeping host thread. A thread that waits by
  /// View() takes no CQEs: count the completions of sends by a CompletionRing on CompletionView().
  ///
  /// @param channel  must outlive this
  /// @param cookie   names the queue in the channel
  /// @return  the alarm to arm; use it no longer than this lives
  /// @errors  Error: the queue's completions are collapsed or shared, or on a GPU; the endpoint has no
  ///          receive queue; the firmware refuses
  CompletionAlarm AnnounceSends(CompletionChannel& channel, uint64_t cookie);
  CompletionAlarm AnnounceReceives(CompletionChannel& channel, uint64_t cookie);

  /// Lets the failure of a completion queue wake a sleeping host thread. The endpoint is lost then: create it
  /// again, and its SharedCompletions if it has them.
  ///
  /// @param channel  must outlive this
  /// @param cookie   names the failure in the channel, whichever queue failed
  /// @errors  Error: the firmware refuses
  void AnnounceFailures(CompletionChannel& channel, uint64_t cookie) const;

  /// Sets the only regions that posts may name in a checked build. Without a call it allows all.
  ///
  /// @param local   regions of this side
  /// @param remote  regions of the peer
  /// @pre     no kernel uses the queue
  /// @errors  Error: too many, or a view of no region; out of memory
  void AllowRegions(std::span<const MemoryView> local, std::span<const MemoryView> remote);

  /// How doorbells reach the NIC; never kAuto.
  DoorbellMode doorbell_mode() const;

  /// The CQ of the send queue, which a WAIT names.
  uint32_t send_cqn() const;

  /// Whether the queues are in the memory of EndpointConfig::gpu.
  bool on_gpu() const;

  /// How far a poster's releases must reach, and so which arch to launch. Data in host memory need the system
  /// scope, whatever this returns.
  arch::Scope ReleaseScope() const;

  /// Returns what SendQueues with device::Counted or device::Traced have counted since the endpoint's
  /// creation: posts, doorbells, polls, waits by cause. A poster that runs adds its counts from time to time,
  /// see device::Counted.
  ///
  /// @pre     as for LastError()
  /// @errors  Error: the queues are on a GPU whose driver has failed
  device::QueueCounters Counters() const;

  /// Returns what SendQueues with device::Traced have stored for the last EndpointConfig::trace_slots slots
  /// since the last Reset(), by time. Empty without a ring.
  ///
  /// @pre  as for LastError(). While kernels post, an event of a new post may have the time of an old one
  std::vector<TracedStep> Trace() const;

  /// Whether kernels of EndpointConfig::gpu post, by whose clock events are.
  bool posters_on_gpu() const;

  /// Describes in lines of text what was chosen and why.
  std::string Describe() const;

 private:
  class Impl;
  Impl* impl_;  // owned; std::unique_ptr would bring <memory>, half of this header's lines
};

WARPVERBS_EXPORT const char* ToString(mlx5::QpState state);

}  // namespace warpverbs::inline v0_2::host
