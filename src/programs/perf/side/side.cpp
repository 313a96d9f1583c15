#include "perf/side/side.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "perf/initiator/shared_arena.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::perf {
namespace {

/// The limit for all slots of one side that --data_validation uses.
constexpr uint64_t kMaxValidatedBytes = uint64_t{64} << 20;

mlx5::Mtu MtuOf(uint32_t bytes) {
  for (const mlx5::Mtu mtu : {mlx5::Mtu::k256, mlx5::Mtu::k512, mlx5::Mtu::k1024, mlx5::Mtu::k2048})
    if (host::Bytes(mtu) == bytes) return mtu;
  return mlx5::Mtu::k4096;
}

host::Access AccessFor(const Options& options) {
  host::Access access{.local_write = true, .over_pcie = options.memory.over_pcie};
  access.remote_write = options.verb == Verb::kWrite;
  access.remote_read = options.verb == Verb::kRead;
  access.remote_atomic = options.is_atomic();
  return access;
}

/// Returns the bytes before a message: the last byte of a latency test, which is polled, ends a word.
uint64_t PadOf(const Options& options, uint64_t bytes) {
  constexpr uint64_t kWord = sizeof(uint64_t);
  return options.is_latency() ? (kWord - bytes % kWord) % kWord : 0;
}

/// Returns the GPU whose kernels post, if kernels do.
std::optional<host::Gpu> GpuOf(const Options& options, InitiatorKind kind) {
  if (kind != InitiatorKind::kGpu) return std::nullopt;
  RequireKernels();
  return FindGpu(options.memory);
}

host::EndpointConfig ConfigOf(const Options& options, const host::Gpu* gpu, uint32_t mtu) {
  host::EndpointConfig config = options.selection.Config(options.nic_port);
  config.gpu = gpu;
  config.placement = options.placement;
  config.over_pcie = options.memory.over_pcie;
  config.path.max_mtu = MtuOf(mtu);
  config.path.hop_limit = options.hop_limit.value_or(config.path.hop_limit);
  config.retry.ack_timeout = options.ack_timeout.value_or(config.retry.ack_timeout);
  config.retry.retry_count = options.retry_count.value_or(config.retry.retry_count);
  config.pkey_index = options.pkey_index;
  config.depth = options.is_latency() ? 128 : options.Depth();
  // A read into GPU memory may take a second WQE.
  if (gpu != nullptr && options.verb != Verb::kWrite && options.verb != Verb::kSend) config.depth *= 2;
  if (options.verb == Verb::kSend) config.receive_depth = options.is_latency() ? 64 : options.rx_depth;
  return config;
}

}  // namespace

void PerfSide::Check(const host::Device& device, const Options& options, InitiatorKind kind) {
  constexpr uint32_t kAnyMtu = 256;
  const std::optional<host::Gpu> gpu = GpuOf(options, kind);
  FlowMemory::CheckDevice(options.memory);
  const host::Endpoint endpoint(device, ConfigOf(options, gpu ? &*gpu : nullptr, kAnyMtu));
}

PerfSide::PerfSide(const host::Device& device, const Options& options, InitiatorKind kind,
                   const Agreement& agreement, const StepLog& steps)
    : options_(options), alignment_(agreement.alignment) {
  gpu_ = GpuOf(options, kind);
  initiator_ = gpu_ ? MakeGpuInitiator(*gpu_) : MakeCpuInitiator();
  uint64_t span = 0;
  for (const uint64_t size : options.sizes) span = std::max(span, LayoutFor(size).span());
  largest_ = LayoutFor(options.sizes.back());
  steps.Begin(Step::kAllocate);
  memory_.emplace(device, options.memory, initiator_->gpu(), options.placement, options.qps, span,
                  AccessFor(options));
  if (options.data_validation && options.memory.kind == MemoryChoice::Kind::kGaudi)
    memory_->CopyByNic(device, options.selection.Config(options.nic_port), options.timeout);
  steps.Begin(Step::kCreateQueues);
  const host::EndpointConfig config = ConfigOf(options, initiator_->gpu(), agreement.mtu);
  for (uint32_t i = 0; i < options.qps; ++i) endpoints_.emplace_back(device, config);
  const bool data_on_gpu = memory_->on_gpu() && endpoints_.front().on_gpu();
  initiator_->ReleaseTo(data_on_gpu ? endpoints_.front().ReleaseScope() : arch::Scope::kSystem);
}

PerfSide::~PerfSide() = default;

Layout PerfSide::LayoutFor(uint64_t bytes) const {
  if (options_.is_latency()) {
    Layout layout = PageLayout(bytes + PadOf(options_, bytes), alignment_);
    layout.bytes = bytes;
    layout.slots = 1;
    return layout;
  }
  if (!options_.data_validation) return PageLayout(bytes, alignment_);
  // Depends only on values that are equal on both sides. Receives are posted ahead, for messages of any size.
  const uint64_t slot_bytes = options_.verb == Verb::kSend ? options_.sizes.back() : bytes;
  Layout layout = RoomyLayout(slot_bytes, options_.iterations, kMaxValidatedBytes / options_.qps, alignment_);
  layout.bytes = bytes;
  return layout;
}

void PerfSide::PostReceives() const {
  SharedArena arena(*initiator_,
                    SharedArena::Bytes<ReceiveFlow>(flows()) + SharedArena::Bytes<LaunchResult>(1));
  auto* const flows_of_job = arena.Allocate<ReceiveFlow>(flows());
  auto* const result = arena.Allocate<LaunchResult>(1);
  for (uint32_t i = 0; i < flows(); ++i) flows_of_job[i] = ReceivesOf(i);
  initiator_->Fill(
      {.flows = flows_of_job, .flow_count = flows(), .count = 0, .timeout_ns = 0, .result = result});
  Check(*result);
}

void PerfSide::Connect(ControlChannel& control, const StepLog& steps) {
  steps.Begin(Step::kExchangeAddresses);
  Json mine = Json::array();
  for (uint32_t i = 0; i < flows(); ++i) {
    const FlowAddress own = LocalAddress(i);
    mine.push_back({{"qpn", own.qpn},
                    {"psn", own.psn},
                    {"rkey", own.rkey},
                    {"lid", own.lid},
                    {"gid", own.gid.raw},
                    {"source", own.source},
                    {"target", own.target}});
  }
  const Json answer = control.Swap({{"flows", mine}}, "its addresses");
  for (const Json& peer : Get<Json>(answer, "flows")) peers_.push_back(ParseFlowAddress(peer));
  if (peers_.size() != flows())
    throw std::runtime_error("The peer has another number of queue pairs. Give both sides the same -q.");
  steps.Begin(Step::kConnect);
  if (options_.rdma_cm) {
    cm_connections_ = ConnectByRdmaCm(endpoints_, options_, control);
  } else {
    std::vector<host::Endpoint*> all;
    all.reserve(endpoints_.size());
    for (host::Endpoint& endpoint : endpoints_) all.push_back(&endpoint);
    host::ConnectAll(all, control.exchange(), control.Deadline());
    for (uint32_t i = 0; i < flows(); ++i)
      peers_[i].gid = endpoints_[i].peer()->gid;  // ConnectAll() may have chosen another one
  }
}

FlowAddress ParseFlowAddress(const Json& message) {
  return {.qpn = Get<uint32_t>(message, "qpn"),
          .psn = Get<uint32_t>(message, "psn"),
          .rkey = Get<uint32_t>(message, "rkey"),
          .lid = Get<uint16_t>(message, "lid"),
          .gid = {Get<std::array<uint8_t, 16>>(message, "gid")},
          .source = Get<uint64_t>(message, "source"),
          .target = Get<uint64_t>(message, "target")};
}

FlowAddress PerfSide::LocalAddress(uint32_t flow) const {
  const host::MemoryView target = memory_->ViewOf(flow, FlowMemory::Part::kTarget);
  const host::EndpointInfo info = endpoints_[flow].Info();
  return {.qpn = info.qpn,
          .psn = info.psn,
          .rkey = target.rkey,
          .lid = info.lid,
          .gid = info.gid,
          .source = memory_->ViewOf(flow, FlowMemory::Part::kSource).addr,
          .target = target.addr};
}

Flow PerfSide::FlowOf(uint32_t flow, const Layout& layout) const {
  // A read copies the peer's source to this side's target. An atomic returns its value to this side's source.
  const bool reads = options_.verb == Verb::kRead;
  const auto part = reads ? FlowMemory::Part::kTarget : FlowMemory::Part::kSource;
  const host::MemoryView local = memory_->ViewOf(flow, part);
  const FlowAddress& peer = peers_[flow];
  const uint64_t pad = PadOf(options_, layout.bytes);
  return {.queue = endpoints_[flow].View(),
          .local = {local.addr + pad, layout.bytes, mlx5::ToBe32(local.lkey)},
          .remote = {(reads ? peer.source : peer.target) + pad, mlx5::ToBe32(peer.rkey)},
          .stride = layout.stride,
          .slots = layout.slots};
}

ReceiveFlow PerfSide::ReceivesOf(uint32_t flow) const {
  const host::MemoryView target = memory_->ViewOf(flow, FlowMemory::Part::kTarget);
  return {.queue = endpoints_[flow].ReceiveView(),
          .local = {target.addr, largest_.stride, mlx5::ToBe32(target.lkey)},
          .stride = largest_.stride,
          .slots = largest_.slots};
}

void PerfSide::Check(const LaunchResult& result) const {
  const uint64_t abort = arch::Cpu::Load(&result.abort);
  if (abort == 0 || abort == LaunchResult::kStopped) return;  // the thread that stopped it reports why
  const host::Endpoint& endpoint = endpoints_.at(result.flow);
  if (const auto error = endpoint.LastError()) throw std::runtime_error(error->Describe());
  const bool waited = result.status.code == device::Code::kTimeout;
  throw host::Error("measure by", "QP " + std::to_string(endpoint.qpn()), host::Describe(result.status),
                    waited ? "Check that the peer still runs, or raise --timeout"
                           : "Read the output of the peer, and run warpverbs-doctor on both machines");
}

void PerfSide::Stop(LaunchResult& result) {
  arch::Cpu::CompareSwap(&result.abort, 0, LaunchResult::kStopped);
}

std::string PerfSide::Describe() const {
  return std::string("initiator: ") + initiator_->name() + "\nmessages: " + memory_->Describe() + "\n" +
         endpoints_.front().Describe();
}

}  // namespace warpverbs::perf
