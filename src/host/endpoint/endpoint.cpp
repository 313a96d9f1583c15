#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <random>

#include "endpoint/endpoint_impl.hpp"
#include "log/log.hpp"
#include "queue/queue_chunk.hpp"
#include "queue/queue_pool_impl.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;

constexpr size_t kMaxQueueAlignment = size_t{1} << 30;
constexpr uint32_t kMaxTraceSlots = 1 << 20;

uint32_t ReceiveStride(const EndpointConfig& config) { return mlx5::kSegmentBytes * config.receive_scatter; }

void RequireOption(const Device& device, bool ok, const std::string& option, const std::string& range) {
  if (ok) return;
  throw Error("create", "an endpoint on " + device.name(), "the " + option + " is out of range",
              "Choose " + range);
}

/// Validates the options of the path, the partition and the retries.
void CheckSession(const Device& device, const Port& port, const EndpointConfig& config) {
  RequireOption(device, config.retry.ack_timeout <= 31, "ack timeout", "0 to 31");
  RequireOption(device, config.retry.retry_count <= 7, "retry count", "0 to 7");
  RequireOption(device, config.retry.rnr_retry <= 7, "receiver-not-ready retry count", "0 to 7");
  RequireOption(device, config.retry.min_rnr_timer <= 31, "receiver-not-ready timer", "0 to 31");
  RequireOption(device, config.pkey_index < port.pkey_table_size, "pkey index",
                "0 to " + std::to_string(port.pkey_table_size - 1));
  const PathConfig& path = config.path;
  RequireOption(device, path.max_mtu >= mlx5::Mtu::k256 && path.max_mtu <= mlx5::Mtu::k4096, "path's MTU",
                "256 to 4096 bytes");
  const uint8_t last_service_level = port.link_layer == LinkLayer::kEthernet ? 7 : 15;
  RequireOption(device, path.service_level <= last_service_level, "service level",
                "0 to 7, on InfiniBand 0 to 15");
  const uint16_t first = device.capabilities().min_udp_source_port;
  const uint16_t last = device.capabilities().max_udp_source_port;
  RequireOption(
      device, path.udp_source_port == 0 || (path.udp_source_port >= first && path.udp_source_port <= last),
      "UDP source port",
      std::to_string(first) + " to " + std::to_string(last) + ", or 0 to derive it from the QP numbers");
}

/// Returns the options with rounded depths. Throws if one is out of range or the device lacks a feature.
EndpointConfig Checked(const Device& device, const Port& port, EndpointConfig config) {
  const Capabilities& capabilities = device.capabilities();
  const auto require = [&](bool has, const char* reason, const char* remedy) {
    if (!has) throw Error("create", "an endpoint on " + device.name(), reason, remedy);
  };
  const bool has_own_ring = config.completions == nullptr && config.cq_mode == CqMode::kRing;
  require(!config.wait_on_cq || capabilities.cross_channel,
          "the device cannot wait for the completions of another queue", "Leave wait_on_cq false");
  const uint32_t max_on_ring = std::min(capabilities.max_send_wqebbs, capabilities.max_cqes);
  config.depth =
      RoundDepth(config.depth, has_own_ring ? max_on_ring : capabilities.max_send_wqebbs, "a send queue");
  if (config.receive_depth != 0) {
    const uint32_t max_scatter = capabilities.max_receive_bytes / mlx5::kSegmentBytes;
    RequireOption(device, config.receive_scatter >= 1 && config.receive_scatter <= max_scatter,
                  "number of buffers of a receive", "1 to " + std::to_string(max_scatter));
    config.receive_scatter = std::bit_ceil(config.receive_scatter);
    // The send queue follows the receive queue, and must start at a WQEBB.
    const uint32_t min_depth = mlx5::kWqebbBytes / ReceiveStride(config);
    config.receive_depth =
        std::max(RoundDepth(config.receive_depth, max_on_ring, "a receive queue"), min_depth);
  }
  const bool may_have_cq_depth = has_own_ring || config.cq_depth == 0;
  require(may_have_cq_depth, "cq_depth is the depth of a ring of the endpoint's own, and it has none",
          "Choose CqMode::kRing without shared completions, or leave cq_depth 0");
  if (has_own_ring) {
    RequireOption(device, config.cq_depth == 0 || config.cq_depth >= config.depth, "depth of the ring",
                  std::to_string(config.depth) + " CQEs, as many as the send queue has entries, or more");
    config.cq_depth = RingDepth(
        RoundDepth(std::max(config.cq_depth, config.depth), capabilities.max_cqes, "a ring of completions"));
  }
  const size_t alignment = config.queue_alignment;
  RequireOption(device,
                alignment == 0 || (std::has_single_bit(alignment) && alignment >= QueueLayout::kPage &&
                                   alignment <= kMaxQueueAlignment),
                "alignment of the queues", "a power of two of 4096 to 2^30, or 0");
  require(alignment == 0 || config.pool == nullptr, "a pool packs its queues",
          "Leave queue_alignment 0, or use no pool");
  RequireOption(device, config.trace_slots <= kMaxTraceSlots, "number of traced slots", "0 to 2^20");
  if (config.trace_slots != 0) config.trace_slots = std::bit_ceil(config.trace_slots);
  CheckSession(device, port, config);
  return config;
}

uint32_t FirstPsn(const EndpointConfig& config) {
  return config.psn.value_or(std::random_device{}()) & 0xffffff;
}

/// Returns the mode that allows most. Masked atomics on 4 bytes need kUpTo8, which some devices lack.
mlx5::AtomicMode AtomicModeOf(const Capabilities& capabilities) {
  if (!capabilities.atomics()) return mlx5::AtomicMode::kNone;
  return (capabilities.atomic_sizes & 4) ? mlx5::AtomicMode::kUpTo8 : mlx5::AtomicMode::kIbSpec;
}

QueueSizes SizesOf(const EndpointConfig& config) {
  const uint32_t own_cq_depth = config.cq_mode == CqMode::kRing ? config.cq_depth : 1;
  return {.depth = config.depth,
          .cq_depth = config.completions != nullptr ? 0 : own_cq_depth,
          .receive_depth = config.receive_depth,
          .receive_stride = config.receive_depth == 0 ? 0 : ReceiveStride(config),
          .receive_cq_depth = config.receive_depth == 0 ? 0 : RingDepth(config.receive_depth)};
}

/// Returns why queues must be in host memory; null: they need not be.
const char* HostMemoryReason(const EndpointConfig& config) {
  if (config.completions != nullptr) return "the host takes part in delivering shared completions";
  if (config.doorbell == DoorbellMode::kHostPosts) return "a host thread copies the WQEs";
  return nullptr;
}

QueueMemory MakeQueueMemory(const Device& device, const EndpointConfig& config, const QueueLayout& layout) {
  QueueMemory memory(device,
                     {.bytes = layout.bytes,
                      .sink = layout.control + offsetof(device::QueueControl, sink),
                      .gpu = config.gpu,
                      .placement = config.placement,
                      .host_only = HostMemoryReason(config),
                      .over_pcie = config.over_pcie,
                      .alignment = config.queue_alignment},
                     config.pool);
  memory.Fill(layout.cqes, layout.control - layout.cqes, kInvalidCqe);
  return memory;
}

std::shared_ptr<const Uar> MakeRegister(const Device& device, QueuePool* pool) {
  return pool == nullptr ? std::make_shared<const Uar>(device.context()) : pool->impl().TakeRegister(device);
}

std::shared_ptr<std::byte> MakeHostMemory(const EndpointConfig& config, size_t bytes) {
  return config.pool == nullptr ? OwnHostMemory(config.gpu, bytes)
                                : config.pool->impl().TakeHostMemory(config.gpu, bytes);
}

}  // namespace

Endpoint::Impl::Impl(const Device& device, const EndpointConfig& config)
    : device_(device),
      local_(device.ChooseAddress(config.port, config.gid_index, config.peer_gid)),
      config_(Checked(device, local_.port, config)),
      requested_depth_(config.depth),
      sizes_(SizesOf(config_)),
      layout_(sizes_, config.pool == nullptr ? QueueLayout::kPage : QueueLayout::kLine),
      host_layout_(config_.doorbell == DoorbellMode::kHostPosts ? sizes_.depth : 0),
      psn_(FirstPsn(config)),
      gpu_(config.gpu == nullptr ? std::nullopt : std::optional(*config.gpu)),
      endpoints_per_register_(config.pool == nullptr ? 1 : config.pool->config().endpoints_per_register),
      uar_(MakeRegister(device, config.pool)),
      doorbell_(ChooseDoorbell(config_.doorbell, config.gpu, uar_->doorbell())),
      host_memory_(MakeHostMemory(config, host_layout_.bytes)),
      memory_(MakeQueueMemory(device, config_, layout_)),
      completions_(AttachToCompletions()),
      cq_(MakeCompletionQueue(config_.cq_mode, sizes_.cq_depth, layout_.cqes, layout_.cq_dbr)),
      receive_cq_(MakeCompletionQueue(CqMode::kRing, sizes_.receive_cq_depth, layout_.receive_cqes,
                                      layout_.receive_cq_dbr)),
      qp_(device.context(), QueuePairParts()) {
  MakeTraceRing();
  FillControl();
  ListenToEvents();
  if (doorbell_.mode != DoorbellMode::kGpu) {
    if (config_.doorbell_thread == nullptr) own_thread_ = std::make_unique<DoorbellThread>();
    ServeDoorbell();
  }
  Log(LogLevel::kInfo, [&] { return "created " + Describe(); });
}

std::optional<CompletionsAttachment> Endpoint::Impl::AttachToCompletions() {
  if (config_.completions == nullptr) return std::nullopt;
  const std::optional<int> gpu = gpu_ ? std::optional(gpu_->ordinal()) : std::nullopt;
  return std::optional<CompletionsAttachment>(std::in_place, *config_.completions, device_, gpu,
                                              *At<device::QueueControl>(layout_.control), config_.depth);
}

std::optional<CompletionQueue> Endpoint::Impl::MakeCompletionQueue(CqMode mode, uint32_t depth, size_t cqes,
                                                                   size_t dbr) const {
  if (depth == 0) return std::nullopt;
  return CompletionQueue(device_.context(), {.mode = mode,
                                             .depth = depth,
                                             .uar_page = uar_->page_id(),
                                             .umem_id = memory_.umem_id(),
                                             .cqes_offset = memory_.umem_offset() + cqes,
                                             .dbr_offset = memory_.umem_offset() + dbr});
}

QueuePairConfig Endpoint::Impl::QueuePairParts() const {
  return {.pdn = device_.pdn(),
          .cqn = send_cqn(),
          .receive_cqn = receive_cq_ ? receive_cq_->cqn() : 0,
          .user_index = completions_ ? completions_->user_index() : 0,
          .uar_page = uar_->page_id(),
          .umem_id = memory_.umem_id(),
          .queues_offset = memory_.umem_offset() + layout_.rq,
          .dbr_offset = memory_.umem_offset() + layout_.qp_dbr,
          .depth = sizes_.depth,
          .receive_depth = sizes_.receive_depth,
          .receive_stride = sizes_.receive_stride,
          .wait_on_cq = config_.wait_on_cq,
          .timestamp_format = device_.capabilities().timestamp_format};
}

/// Initializes the control words that posters use. The rest of the memory stays zero.
void Endpoint::Impl::FillControl() {
  device::QueueControl control{};
  control.host_error = &host_words().error;
  std::memset(control.cqe, kInvalidCqe, sizeof control.cqe);
  if (completions_) {
    control.ring = &completions_->ring().control();
  }
  if (trace_memory_) {
    control.trace = {reinterpret_cast<device::TraceEvent*>(trace_memory_.get()), config_.trace_slots};
  }
  memory_.Write(layout_.control, &control, sizeof control);
}

bool Endpoint::Impl::dumps_after_read() const {
  const bool unordered = gpu_ && gpu_->attributes().writes_ordering == WritesOrdering::kNone;
  return config_.dump_after_read.value_or(unordered);
}

void Endpoint::Impl::ServeDoorbell() {
  DoorbellRoute route{
      .word = &host_words().doorbell, .doorbell = uar_->doorbell(), .mapping = uar_->mapping()};
  if (doorbell_.mode == DoorbellMode::kHostPosts) {
    route.staging = staging();
    route.sq = At<uint8_t>(layout_.sq);
    route.dbrec = At<uint32_t>(layout_.qp_dbr + offsetof(mlx5::QpDbr, send));
    route.depth = sizes_.depth;
  }
  service_.emplace(own_thread_ ? *own_thread_ : *config_.doorbell_thread, route);
}

EndpointInfo Endpoint::Impl::Info() const {
  return {.qpn = qpn(),
          .psn = psn_,
          .link_layer = local_.port.link_layer,
          .gid_type = local_.gid.type,
          .gid = local_.gid.gid,
          .lid = local_.port.lid,
          .mtu = std::min(local_.port.active_mtu, config_.path.max_mtu),
          .max_reads_out = device_.capabilities().max_reads_out,
          .max_reads_in = device_.capabilities().max_reads_in};
}

void Endpoint::Impl::SendFrom(const GidEntry& gid, const Gid& peer) {
  const std::string object = "the GID of " + name() + " to " + ToString(gid.type) + " " + ToString(gid.gid);
  if (attempted_) {
    throw Error("change", object,
                peer_ ? "it has been connected" : "connecting or resetting it failed half-way before",
                "Call Reset() on both sides first");
  }
  if (has_fixed_gid() && gid != local_.gid) {
    throw Error(
        "change", object,
        std::string("EndpointConfig names ") + ToString(local_.gid.type) + " " + ToString(local_.gid.gid),
        "Leave gid_index and peer_gid unset to choose the GID later");
  }
  const bool is_another = gid != local_.gid;
  local_.gid = gid;
  paired_with_ = peer;
  if (is_another) Log(LogLevel::kInfo, [&] { return name() + " sends from " + DescribeAddress(); });
}

void Endpoint::Impl::CheckPeer(const EndpointInfo& peer) const { static_cast<void>(PathTo(peer)); }

Path Endpoint::Impl::PathTo(const EndpointInfo& peer) const {
  peer.Check();
  return ResolvePath(device_, config_.path, local_, qpn(), peer);
}

void Endpoint::Impl::Connect(const EndpointInfo& peer) {
  if (attempted_) {
    throw Error("connect", name(),
                peer_ ? "it was connected before" : "connecting or resetting it failed half-way before",
                "Call Reset() on both sides first, and connect with the peer's new Info()");
  }
  if (watch_) static_cast<void>(device_.ActivePort(local_.port.number));
  path_ = PathTo(peer);
  attempted_ = true;
  const Capabilities& capabilities = device_.capabilities();
  const Session session{.peer_qpn = peer.qpn,
                        .send_psn = psn_,
                        .receive_psn = peer.psn,
                        .reads_out = std::min(capabilities.max_reads_out, peer.max_reads_in),
                        .reads_in = std::min(capabilities.max_reads_in, peer.max_reads_out),
                        .log_max_message = capabilities.log_max_message};
  const RemoteRights rights{
      .read = config_.remote_read,
      .write = config_.remote_write,
      .atomic = config_.remote_atomic ? AtomicModeOf(capabilities) : mlx5::AtomicMode::kNone};
  qp_.ToInit(local_.port.number, config_.pkey_index, rights);
  qp_.ToRtr(path_, session, config_.retry);
  qp_.ToRts(session, config_.retry);
  peer_ = peer;
  PublishState(device::PeerState::kConnected);
  Log(LogLevel::kInfo, [&] { return "connected " + name() + " " + DescribePath(); });
}

void Endpoint::Impl::Reset() {
  service_.reset();   // from here on no doorbell is forwarded
  attempted_ = true;  // if a step below fails, only another Reset() helps
  qp_.ToReset();
  PublishState(device::PeerState::kDisconnected);
  ClearCompletions();
  memory_.Fill(layout_.qp_dbr, sizeof(mlx5::QpDbr), 0);
  memory_.Store(layout_.control + offsetof(device::QueueControl, tail), 0);
  memory_.Store(layout_.control + offsetof(device::QueueControl, ready), 0);
  memory_.Store(layout_.control + offsetof(device::QueueControl, error), 0);
  if (trace_memory_)
    std::memset(trace_memory_.get(), 0,
                sizeof(device::TraceEvent) * device::kTraceKinds * config_.trace_slots);
  Cpu::Store(&host_words().error, 0);
  Cpu::Store(&host_words().doorbell, 0);
  Cpu::Store(&host_words().abort, 0);
  disconnected_ = false;
  if (watch_) watch_->Clear();  // later events concern the queues after the reset
  peer_.reset();
  psn_ = FirstPsn(config_);
  if (doorbell_.mode != DoorbellMode::kGpu) ServeDoorbell();
  attempted_ = false;
  Log(LogLevel::kInfo, [&] { return "reset " + name(); });
}

/// Discards all completions. The NIC's ring indices keep counting, so the consumers' indices must as well.
void Endpoint::Impl::ClearCompletions() {
  if (completions_) {
    if (!DrainAll(completions_->ring().control())) {
      throw Error("reset", name(), "a poster holds the lock of its ring of shared completions",
                  "Call SharedCompletions::Recover() once no kernel uses any queue of the ring, then Reset() "
                  "again");
    }
  } else if (has_own_ring()) {
    const uint64_t next = RestartRing(CompletionView());
    memory_.Store(layout_.control + offsetof(device::QueueControl, cursor), next << 32);
  } else {
    memory_.Fill(layout_.cqes, sizeof(mlx5::Cqe64), kInvalidCqe);
  }
  memory_.Fill(layout_.control + offsetof(device::QueueControl, cqe), sizeof(mlx5::Cqe64), kInvalidCqe);
  if (receive_cq_) {
    memory_.Store(layout_.receive_state, 0);
    first_receive_cqe_ = RestartRing(ReceiveView().cq);
  }
}

/// Makes a ring that keeps counting read like a new one. Returns the index of its next completion.
uint32_t Endpoint::Impl::RestartRing(const device::CqView& view) {
  std::vector<std::byte> copy;
  const device::CqView ring = ReadRing(view, copy);
  const auto cqes = static_cast<size_t>(view.cqe - At<uint8_t>(0));
  for (const CqePatch& patch : AsBeforeIndex0(ring)) {
    memory_.Write(cqes + patch.offset, patch.bytes.data(), patch.bytes.size());
  }
  return EndOfRing(ring);
}

device::CqView Endpoint::Impl::ReadRing(const device::CqView& ring, std::vector<std::byte>& copy) const {
  const auto offset = static_cast<size_t>(ring.cqe - At<uint8_t>(0));
  // A copy of GPU memory takes time. If slot 0 is as it was, the NIC has not come round meanwhile.
  constexpr int kCopies = 3;
  const std::byte* cqes = nullptr;
  std::vector<std::byte> again;
  for (int i = 0; i < kCopies; ++i) {
    cqes = memory_.Read(offset, ring.depth * sizeof(mlx5::Cqe64), copy);
    if (copy.empty()) break;  // read in place
    const std::byte* const first = memory_.Read(offset, sizeof(mlx5::Cqe64), again);
    if (std::memcmp(first, cqes, sizeof(mlx5::Cqe64)) == 0) break;
  }
  return {.cqe = reinterpret_cast<const uint8_t*>(cqes), .dbrec = ring.dbrec, .depth = ring.depth};
}

Endpoint::Endpoint(const Device& device, const EndpointConfig& config) : impl_(new Impl(device, config)) {}
Endpoint::~Endpoint() {
  if (impl_->InOwnProcess()) delete impl_;
}

const Device& Endpoint::device() const { return impl_->device(); }
uint32_t Endpoint::qpn() const { return impl_->qpn(); }
uint8_t Endpoint::port() const { return impl_->port(); }
const LocalAddress& Endpoint::address() const { return impl_->address(); }
const std::optional<EndpointInfo>& Endpoint::peer() const { return impl_->peer(); }
bool Endpoint::has_fixed_gid() const { return impl_->has_fixed_gid(); }
uint16_t Endpoint::pkey_index() const { return impl_->pkey_index(); }
void Endpoint::SendFrom(const GidEntry& gid, const Gid& peer) { impl_->SendFrom(gid, peer); }
EndpointInfo Endpoint::Info() const { return impl_->Info(); }
void Endpoint::Connect(const EndpointInfo& peer) { impl_->Connect(peer); }
void Endpoint::CheckPeer(const EndpointInfo& peer) const { impl_->CheckPeer(peer); }
void Endpoint::Disconnect() { impl_->Disconnect(); }
void Endpoint::Reset() { impl_->Reset(); }
mlx5::QpState Endpoint::State() const { return impl_->State(); }
std::optional<QueueError> Endpoint::LastError() const { return impl_->LastError(); }
std::optional<Event> Endpoint::LastEvent() const { return impl_->LastEvent(); }
const uint64_t* Endpoint::AbortWord() const { return impl_->AbortWord(); }
void Endpoint::Abort() { impl_->Abort(); }
device::QueueView Endpoint::View() const { return impl_->View(); }
device::ReceiveQueueView Endpoint::ReceiveView() const { return impl_->ReceiveView(); }
device::CqView Endpoint::CompletionView() const { return impl_->CompletionView(); }
CompletionAlarm Endpoint::AnnounceSends(CompletionChannel& channel, uint64_t cookie) {
  return impl_->AnnounceSends(channel, cookie);
}
CompletionAlarm Endpoint::AnnounceReceives(CompletionChannel& channel, uint64_t cookie) {
  return impl_->AnnounceReceives(channel, cookie);
}
void Endpoint::AnnounceFailures(CompletionChannel& channel, uint64_t cookie) const {
  impl_->AnnounceFailures(channel, cookie);
}
void Endpoint::AllowRegions(std::span<const MemoryView> local, std::span<const MemoryView> remote) {
  impl_->AllowRegions(local, remote);
}
DoorbellMode Endpoint::doorbell_mode() const { return impl_->doorbell_mode(); }
uint32_t Endpoint::send_cqn() const { return impl_->send_cqn(); }
bool Endpoint::on_gpu() const { return impl_->on_gpu(); }
arch::Scope Endpoint::ReleaseScope() const { return impl_->ReleaseScope(); }
bool Endpoint::posters_on_gpu() const { return impl_->posters_on_gpu(); }
std::string Endpoint::Describe() const { return impl_->Describe(); }

}  // namespace warpverbs::inline v0_2::host
