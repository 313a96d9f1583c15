#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/owner_process.hpp"
#include "endpoint/path.hpp"
#include "events/event_watch.hpp"
#include "queue/completion_queue.hpp"
#include "queue/completions_attachment.hpp"
#include "queue/doorbell_choice.hpp"
#include "queue/doorbell_service.hpp"
#include "queue/queue_layout.hpp"
#include "queue/queue_memory.hpp"
#include "queue/queue_pair.hpp"
#include "queue/uar.hpp"
#include "warpverbs/host/completion_channel.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/peer_table.hpp"

namespace warpverbs::inline v0_2::host {

class Endpoint::Impl {
 public:
  Impl(const Device& device, const EndpointConfig& config);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  bool InOwnProcess() const { return owner_.IsThisOne(); }
  const Device& device() const { return device_; }
  uint32_t qpn() const { return qp_.qpn(); }
  uint8_t port() const { return local_.port.number; }
  const LocalAddress& address() const { return local_; }
  const std::optional<EndpointInfo>& peer() const { return peer_; }
  bool has_fixed_gid() const { return config_.gid_index >= 0 || config_.peer_gid; }
  uint16_t pkey_index() const { return config_.pkey_index; }
  void SendFrom(const GidEntry& gid, const Gid& peer);
  EndpointInfo Info() const;
  void Connect(const EndpointInfo& peer);
  void CheckPeer(const EndpointInfo& peer) const;
  void Disconnect();
  void Reset();
  mlx5::QpState State() const { return qp_.State(); }
  std::optional<QueueError> LastError() const;
  std::optional<Event> LastEvent() const;
  const uint64_t* AbortWord() const { return &host_words().abort; }
  void Abort();
  device::QueueView View() const;
  device::ReceiveQueueView ReceiveView() const;
  device::CqView CompletionView() const;
  CompletionAlarm AnnounceSends(CompletionChannel& channel, uint64_t cookie);
  CompletionAlarm AnnounceReceives(CompletionChannel& channel, uint64_t cookie);
  void AnnounceFailures(CompletionChannel& channel, uint64_t cookie) const;
  void AllowRegions(std::span<const MemoryView> local, std::span<const MemoryView> remote);
  DoorbellMode doorbell_mode() const { return doorbell_.mode; }
  uint32_t send_cqn() const { return completions_ ? completions_->ring().cqn() : cq_->cqn(); }
  bool on_gpu() const { return memory_.on_gpu(); }
  arch::Scope ReleaseScope() const { return on_gpu() ? arch::Scope::kGpu : arch::Scope::kSystem; }
  device::QueueCounters Counters() const;
  std::vector<TracedStep> Trace() const;
  bool posters_on_gpu() const { return gpu_.has_value(); }
  std::string Describe() const;

 private:
  /// Returns the address of a part of the queue memory, which may be on the GPU.
  template <class T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }
  HostWords& host_words() const { return *reinterpret_cast<HostWords*>(host_memory_.get()); }
  uint8_t* staging() const { return reinterpret_cast<uint8_t*>(host_memory_.get() + host_layout_.staging); }
  /// Returns the mode of the send queue's CQ, its own or a shared one.
  CqMode cq_mode() const { return completions_ ? CqMode::kRing : config_.cq_mode; }
  bool has_own_ring() const { return !completions_ && config_.cq_mode == CqMode::kRing; }
  bool dumps_after_read() const;

  Path PathTo(const EndpointInfo& peer) const;

  // Parts of the construction.
  std::optional<CompletionsAttachment> AttachToCompletions();
  std::optional<CompletionQueue> MakeCompletionQueue(CqMode mode, uint32_t depth, size_t cqes,
                                                     size_t dbr) const;
  QueuePairConfig QueuePairParts() const;
  void MakeTraceRing();
  void FillControl();
  void ServeDoorbell();
  void ListenToEvents();
  void PublishState(device::PeerState state) const;
  void PublishFailure() const;
  CompletionAlarm Announce(const CompletionQueue& queue, size_t dbr, CompletionChannel& channel,
                           uint64_t cookie);

  /// Returns a view of a ring of this endpoint that the host can read: of the ring itself or of `copy`.
  device::CqView ReadRing(const device::CqView& ring, std::vector<std::byte>& copy) const;
  void ClearCompletions();
  uint32_t RestartRing(const device::CqView& view);
  uint64_t WaitingError() const;
  uint64_t SendError() const;
  uint64_t ReceiveError() const;
  std::optional<QueueError> ReportedError() const;
  bool HasStopped() const;

  std::string DescribeSharing() const;
  std::string DescribeCompletions() const;
  std::string DescribePosters() const;
  std::string name() const;  // "QP 77 on mlx5_0"
  std::string DescribeAddress() const;
  std::string DescribePath() const;
  std::string DescribeEvents() const;

  // The firmware requires most of this order. Members are destroyed from the last to the first: the queue
  // pair, its completion queues, the registrations, the memory, the doorbell.
  const OwnerProcess owner_;
  const Device& device_;
  LocalAddress local_;
  std::optional<Gid> paired_with_;  // set by SendFrom()
  EndpointConfig config_;           // with rounded depths
  uint32_t requested_depth_;
  QueueSizes sizes_;
  QueueLayout layout_;
  HostLayout host_layout_;
  uint32_t psn_;
  std::optional<Gpu> gpu_;
  uint32_t endpoints_per_register_;  // upper limit
  std::shared_ptr<const Uar> uar_;
  DoorbellChoice doorbell_;
  std::shared_ptr<std::byte> host_memory_;
  QueueMemory memory_;
  std::shared_ptr<std::byte> trace_memory_;       // null without EndpointConfig::trace_slots
  std::shared_ptr<std::byte> region_store_;       // made by AllowRegions(); null: everything is allowed
  const device::RegionTable* regions_ = nullptr;  // copy of QueueControl::regions
  std::optional<CompletionsAttachment> completions_;
  std::optional<CompletionQueue> cq_;  // empty if completions_ is set
  std::optional<CompletionQueue> receive_cq_;
  uint32_t first_receive_cqe_ = 0;  // consumer index after the last Reset()
  QueuePair qp_;
  bool attempted_ = false;            // a transition has begun since creation or the last Reset()
  std::optional<EndpointInfo> peer_;  // empty until connected
  Path path_;
  std::unique_ptr<DoorbellThread> own_thread_;
  std::optional<DoorbellService> service_;  // if the host rings
  std::atomic<bool> disconnected_{false};   // set by Disconnect()
  std::unique_ptr<PeerTable::Attachment> peer_state_;
  std::optional<EventWatch> watch_;
};

}  // namespace warpverbs::inline v0_2::host
