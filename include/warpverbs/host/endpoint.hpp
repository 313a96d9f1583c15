#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/host/completion_channel.hpp"
#include "warpverbs/host/completion_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_mode.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/path.hpp"
#include "warpverbs/host/peer_table.hpp"
#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/host/queue_layout.hpp"
#include "warpverbs/host/queue_memory.hpp"
#include "warpverbs/host/queue_pair.hpp"
#include "warpverbs/host/queue_pool.hpp"
#include "warpverbs/host/shared_completions.hpp"
#include "warpverbs/host/uar.hpp"

namespace warpverbs::host {

/// A reliable-connected queue pair whose send queue, and receive queue if it has one, a kernel drives.
///
/// Owns the queues, the doorbell records and the doorbell's mapping. Views stay valid until destruction,
/// which no kernel that uses them may outlive. Not thread-safe but for LastError() and LastEvent().
class Endpoint {
 public:
  /// @param device  must outlive this
  /// @errors  Error: names the step and the firmware's syndrome
  explicit Endpoint(const Device& device, const EndpointConfig& config = {});
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const Device& device() const { return device_; }
  uint32_t qpn() const { return qp_.qpn(); }
  uint8_t port() const { return local_.port.number; }  ///< of the device, from 1

  /// Where it sends from; the port as it was when the endpoint was made.
  const LocalAddress& address() const { return local_; }

  /// The peer of Connect(); empty before that, and after a Reset().
  const std::optional<EndpointInfo>& peer() const { return peer_; }

  /// Whether EndpointConfig says what GID it sends from, be it by the peer's.
  bool has_fixed_gid() const { return config_.gid_index >= 0 || config_.peer_gid; }
  uint16_t pkey_index() const { return config_.pkey_index; }

  /// Sends from another GID of its port, and goes on to after a Reset(). Info() tells the new one.
  ///
  /// @param gid   one of Device::Gids()
  /// @param peer  the peer's, with which it makes the best pair: for Describe()
  /// @pre     no Connect() since the last Reset()
  /// @errors  Error: there was one; has_fixed_gid(), and `gid` is another
  void SendFrom(const GidEntry& gid, const Gid& peer);

  /// What the peer needs for its Connect().
  EndpointInfo Info() const;

  /// Takes the queue pair from RESET to RTS; once between resets. Writes posted before the peer connects are
  /// retried. It sends from the GID it has, whatever the peer's: ConnectAll() chooses both.
  ///
  /// @errors  Error: a peer that cannot be reached, which leaves the endpoint as it was; a step that the
  ///          firmware refused, or a second call: call Reset() first; with EndpointConfig::events, a port
  ///          that is down, of which no event would tell any more
  void Connect(const EndpointInfo& peer);

  /// Finds out whether Connect() could reach a peer from here, and touches no queue.
  ///
  /// @errors  Error: it could not, and why
  void CheckPeer(const EndpointInfo& peer) const;

  /// Ends the connection: what was posted and is not done completes as flushed, on this side at once; the
  /// peer's retries run out. Reset() and Connect() on both sides begin another. Without a connection it does
  /// nothing.
  ///
  /// @pre     kernels may run: their waits say kError
  /// @errors  Error: the firmware refused
  void Disconnect();

  /// Makes the endpoint as new, in whatever state it is: empty queues, no error, no abort, another PSN unless
  /// EndpointConfig::psn gives it, but the same QP number and View(). The peer must be reset too; then each
  /// connects with the other's new Info(). A completion queue that the firmware has stopped stays so, and
  /// with it AbortWord() stays set.
  ///
  /// @pre     no kernel uses the queues; with shared completions, no GPU any queue of the ring
  /// @errors  Error: the firmware refused; a poster that was killed holds the ring of shared completions
  void Reset();

  /// The queue pair's state, from the firmware.
  ///
  /// @errors  Error
  mlx5::QpState State() const { return qp_.State(); }

  /// Why the send or the receive queue failed; empty if neither is known to have failed. Of two reasons it
  /// tells the one that is no mere flush. It only looks, and takes no lock of posters. An event that has
  /// aborted the waits comes with it, or is the reason where the queues have not failed.
  ///
  /// @pre     any thread may call it while kernels run, but none during Connect() or Reset()
  /// @errors  Error: the queues lie on a GPU whose driver has failed
  std::optional<QueueError> LastError() const;

  /// The newest event of the port, the device or the queues since the last Reset(), whatever it means; empty
  /// without EndpointConfig::events. Any thread may ask.
  std::optional<Event> LastEvent() const;

  /// The word for device::WaitLimit::abort: an event that leaves nothing to wait for sets it, and every wait
  /// that names it ends with kAborted. Such are a port that stays down (EventConfig), a failed device, a
  /// queue that the firmware stopped. Reset() clears it. Kernels reach it.
  const uint64_t* AbortWord() const { return &host_words().abort; }

  /// Sets that word by hand; any thread may.
  void Abort();

  /// What a kernel needs to post and to see completions, by value.
  device::QueueView View() const;

  /// What a kernel needs to post receives and to see them complete. Take it anew after a Reset().
  ///
  /// @errors  Error: there is no receive queue
  device::ReceiveQueueView ReceiveView() const;

  /// The ring of CQEs, for one who consumes it by hand and does not use View() to wait.
  ///
  /// @errors  Error: the completion queue is collapsed; View() has its one CQE
  device::CqView CompletionView() const;

  /// Lets the send completions, or those of the receive queue, announce themselves: for host threads that
  /// sleep.
  ///
  /// @param channel  must outlive this
  /// @param cookie   by which the channel names the queue
  /// @return  what asks for it; used no longer than this lives
  /// @errors  Error: the queue's completions are collapsed or shared, or lie on a GPU; there is no receive
  ///          queue; the firmware refuses
  CompletionAlarm AnnounceSends(CompletionChannel& channel, uint64_t cookie);
  CompletionAlarm AnnounceReceives(CompletionChannel& channel, uint64_t cookie);

  /// Tells a checked build what to let through: nothing else from now on. Without a call it lets all through.
  ///
  /// @param local   regions of this side
  /// @param remote  what the peer told of its own
  /// @pre     no kernel uses the queue
  /// @errors  Error: too many, or one of no region; out of memory
  void AllowRegions(std::span<const MemoryView> local, std::span<const MemoryView> remote);

  /// How doorbells reach the NIC; never kAuto.
  DoorbellMode doorbell_mode() const { return doorbell_.mode; }

  /// The CQ of the send queue, which a WAIT names.
  uint32_t send_cqn() const { return seat_ ? seat_->ring().cqn() : cq_->cqn(); }

  /// Whether the queues lie in the memory of EndpointConfig::gpu.
  bool on_gpu() const { return memory_.on_gpu(); }

  /// How far a poster's releases must reach: which arch to launch. For data in host memory it is the system,
  /// whatever this says.
  arch::Scope ReleaseScope() const { return on_gpu() ? arch::Scope::kGpu : arch::Scope::kSystem; }

  /// Says in lines of text what was chosen and why.
  std::string Describe() const;

 private:
  /// An address for posters, wherever it lies.
  template <class T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }
  HostWords& host_words() const { return *reinterpret_cast<HostWords*>(host_memory_.get()); }
  uint8_t* staging() const { return reinterpret_cast<uint8_t*>(host_memory_.get() + host_layout_.staging); }
  bool has_ring() const { return seat_ || config_.cq_mode == CqMode::kRing; }
  bool dumps_after_read() const;

  Path PathTo(const EndpointInfo& peer) const;

  // Parts of the construction.
  std::optional<SharedCompletions::Seat> TakeSeat();
  std::optional<CompletionQueue> MakeCompletionQueue(CqMode mode, uint32_t depth, size_t cqes,
                                                     size_t dbr) const;
  QueuePairConfig QueuePairParts() const;
  void FillControl();
  void ServeDoorbell();
  void ListenToEvents();
  void TellPeers(device::PeerState state) const;
  CompletionAlarm Announce(const CompletionQueue& queue, size_t dbr, CompletionChannel& channel,
                           uint64_t cookie);

  /// A ring of this endpoint's own, for the host to look at; it may be a copy.
  device::CqView Look(const device::CqView& ring, std::vector<std::byte>& copy) const;
  void ClearCompletions();
  uint64_t WaitingError() const;
  uint64_t SendError() const;
  uint64_t ReceiveError() const;

  std::string DescribeSharing() const;
  std::string DescribeCompletions() const;
  std::string DescribePosters() const;
  std::string name() const;  // "QP 77 on mlx5_0"
  std::string DescribeAddress() const;
  std::string DescribePath() const;
  std::string DescribeEvents() const;

  // Members are destroyed from the last to the first: the queue pair, its completion queues, the page
  // registrations, the memory, the doorbell. The firmware insists on much of that order.
  const Device& device_;
  LocalAddress local_;
  std::optional<Gid> paired_with_;  // by SendFrom()
  EndpointConfig config_;           // with the depths rounded
  uint32_t asked_depth_;
  QueueSizes sizes_;
  QueueLayout layout_;
  HostLayout host_layout_;
  uint32_t psn_;
  std::optional<Gpu> gpu_;
  uint32_t endpoints_per_register_;  // at most
  std::shared_ptr<const Uar> uar_;
  DoorbellChoice doorbell_;
  std::shared_ptr<std::byte> host_memory_;
  QueueMemory memory_;
  std::shared_ptr<std::byte> region_store_;       // of AllowRegions(); null: all is allowed
  const device::RegionTable* regions_ = nullptr;  // as QueueControl has it
  std::optional<SharedCompletions::Seat> seat_;
  std::optional<CompletionQueue> cq_;  // none with a seat
  std::optional<CompletionQueue> receive_cq_;
  uint32_t first_receive_cqe_ = 0;  // on the ring, since the last Reset()
  QueuePair qp_;
  bool attempted_ = false;            // a transition has begun, and no Reset() since
  std::optional<EndpointInfo> peer_;  // once connected
  Path path_;
  std::unique_ptr<DoorbellThread> own_thread_;
  std::optional<DoorbellThread::Service> service_;  // where the host rings
  std::atomic<bool> disconnected_{false};           // by Disconnect()
  std::unique_ptr<PeerTable::Seat> peer_seat_;
  std::optional<EventThread::Watch> watch_;
};

}  // namespace warpverbs::host
