#include "perf/party/party.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "perf/initiator/stage.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::perf {
namespace {

/// Of all places that are validated on one side.
constexpr uint64_t kMostValidatedBytes = uint64_t{64} << 20;

mlx5::Mtu MtuOf(uint32_t bytes) {
  for (const mlx5::Mtu mtu : {mlx5::Mtu::k256, mlx5::Mtu::k512, mlx5::Mtu::k1024, mlx5::Mtu::k2048})
    if (host::Bytes(mtu) == bytes) return mtu;
  return mlx5::Mtu::k4096;
}

host::Access AccessFor(const Options& options) {
  host::Access access{.local_write = true};
  access.remote_write = options.verb == Verb::kWrite;
  access.remote_read = options.verb == Verb::kRead;
  access.remote_atomic = options.is_atomic();
  return access;
}

/// What may differ between two sides' messages: the last byte of a latency test lies at the end of a word.
uint64_t PadOf(const Options& options, uint64_t bytes) {
  constexpr uint64_t kWord = sizeof(uint64_t);
  return options.is_latency() ? (kWord - bytes % kWord) % kWord : 0;
}

}  // namespace

Party::Party(const host::Device& device, const Options& options, InitiatorKind kind, const Agreed& agreed,
             const Steps& steps)
    : options_(options), grain_(agreed.grain) {
  if (kind == InitiatorKind::kGpu) {
    if (const std::string why = WhyNoKernels(); !why.empty())
      throw host::Error("post from", "a GPU", why,
                        "Build it with -D WARPVERBS_CUDA=ON, or take --initiator cpu");
    gpu_ = FindGpu(options.memory);
  }
  initiator_ = gpu_ ? GpuInitiator(*gpu_) : CpuInitiator();
  uint64_t span = 0;
  for (const uint64_t size : options.sizes) span = std::max(span, LayoutFor(size).span());
  largest_ = LayoutFor(options.sizes.back());
  steps.Begin(Step::kAllocate);
  memory_.emplace(device, options.memory, initiator_->gpu(), options.placement, options.qps, span,
                  AccessFor(options));
  steps.Begin(Step::kCreateQueues);
  const host::EndpointConfig config = Config(agreed.mtu);
  for (uint32_t i = 0; i < options.qps; ++i) endpoints_.emplace_back(device, config);
  const bool data_on_gpu = memory_->on_gpu() && endpoints_.front().on_gpu();
  initiator_->ReleaseTo(data_on_gpu ? endpoints_.front().ReleaseScope() : arch::Scope::kSystem);
}

Party::~Party() = default;

Layout Party::LayoutFor(uint64_t bytes) const {
  if (options_.is_latency()) {
    Layout layout = PageLayout(bytes + PadOf(options_, bytes), grain_);
    layout.bytes = bytes;
    layout.slots = 1;
    return layout;
  }
  if (!options_.data_validation) return PageLayout(bytes, grain_);
  // By nothing but what both sides have agreed on. Receives are posted ahead, for messages of any size.
  const uint64_t place = options_.verb == Verb::kSend ? options_.sizes.back() : bytes;
  Layout layout = RoomyLayout(place, options_.iterations, kMostValidatedBytes / options_.qps, grain_);
  layout.bytes = bytes;
  return layout;
}

void Party::PostReceives() const {
  Stage stage(*initiator_, Stage::Bytes<ReceiveFlow>(flows()) + Stage::Bytes<Report>(1));
  auto* const flows_of_job = stage.Take<ReceiveFlow>(flows());
  auto* const report = stage.Take<Report>(1);
  for (uint32_t i = 0; i < flows(); ++i) flows_of_job[i] = ReceivesOf(i);
  initiator_->Fill(
      {.flows = flows_of_job, .flow_count = flows(), .count = 0, .patience_ns = 0, .report = report});
  Check(*report);
}

host::EndpointConfig Party::Config(uint32_t mtu) const {
  host::EndpointConfig config = options_.fabric.Config(options_.nic_port);
  config.gpu = initiator_->gpu();
  config.placement = options_.placement;
  config.path.max_mtu = MtuOf(mtu);
  config.path.hop_limit = options_.hop_limit.value_or(config.path.hop_limit);
  config.retry.ack_timeout = options_.ack_timeout.value_or(config.retry.ack_timeout);
  config.retry.retry_count = options_.retry_count.value_or(config.retry.retry_count);
  config.pkey_index = options_.pkey_index;
  config.depth = options_.is_latency() ? 128 : options_.Depth();
  // A read into a GPU's memory may take a second entry.
  if (config.gpu != nullptr && options_.verb != Verb::kWrite && options_.verb != Verb::kSend)
    config.depth *= 2;
  if (options_.verb == Verb::kSend) config.receive_depth = options_.is_latency() ? 64 : options_.rx_depth;
  return config;
}

void Party::Connect(Talk& talk, const Steps& steps) {
  steps.Begin(Step::kExchangeAddresses);
  Json mine = Json::array();
  for (uint32_t i = 0; i < flows(); ++i) {
    const PeerFlow own = Own(i);
    mine.push_back({{"qpn", own.qpn},
                    {"psn", own.psn},
                    {"rkey", own.rkey},
                    {"lid", own.lid},
                    {"gid", own.gid.raw},
                    {"source", own.source},
                    {"target", own.target}});
  }
  const Json answer = talk.Swap({{"flows", mine}}, "its addresses");
  for (const Json& peer : Get<Json>(answer, "flows")) peers_.push_back(PeerFlowFrom(peer));
  if (peers_.size() != flows()) throw std::runtime_error("The other side has another number of queue pairs.");
  steps.Begin(Step::kConnect);
  if (options_.rdma_cm) {
    lines_ = ConnectByRdmaCm(endpoints_, options_, talk);
  } else {
    std::vector<host::Endpoint*> all;
    for (host::Endpoint& endpoint : endpoints_) all.push_back(&endpoint);
    host::ConnectAll(all, talk.exchange(), talk.Until());
    for (uint32_t i = 0; i < flows(); ++i) peers_[i].gid = endpoints_[i].peer()->gid;  // as they chose by now
  }
}

PeerFlow PeerFlowFrom(const Json& answer) {
  return {.qpn = Get<uint32_t>(answer, "qpn"),
          .psn = Get<uint32_t>(answer, "psn"),
          .rkey = Get<uint32_t>(answer, "rkey"),
          .lid = Get<uint16_t>(answer, "lid"),
          .gid = {Get<std::array<uint8_t, 16>>(answer, "gid")},
          .source = Get<uint64_t>(answer, "source"),
          .target = Get<uint64_t>(answer, "target")};
}

PeerFlow Party::Own(uint32_t flow) const {
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

Flow Party::FlowOf(uint32_t flow, const Layout& layout) const {
  // A read brings the peer's source to this side's target; what is fetched comes to this side's source.
  const bool reads = options_.verb == Verb::kRead;
  const auto part = reads ? FlowMemory::Part::kTarget : FlowMemory::Part::kSource;
  const host::MemoryView local = memory_->ViewOf(flow, part);
  const PeerFlow& peer = peers_[flow];
  const uint64_t pad = PadOf(options_, layout.bytes);
  return {.queue = endpoints_[flow].View(),
          .local = {local.addr + pad, layout.bytes, mlx5::ToBe32(local.lkey)},
          .remote = {(reads ? peer.source : peer.target) + pad, mlx5::ToBe32(peer.rkey)},
          .stride = layout.stride,
          .slots = layout.slots};
}

ReceiveFlow Party::ReceivesOf(uint32_t flow) const {
  const host::MemoryView target = memory_->ViewOf(flow, FlowMemory::Part::kTarget);
  return {.queue = endpoints_[flow].ReceiveView(),
          .local = {target.addr, largest_.stride, mlx5::ToBe32(target.lkey)},
          .stride = largest_.stride,
          .slots = largest_.slots};
}

void Party::Check(const Report& report) const {
  const uint64_t abort = arch::Cpu::Load(&report.abort);
  if (abort == 0 || abort == Report::kStopped) return;  // who stopped it knows why
  const host::Endpoint& endpoint = endpoints_.at(report.flow);
  if (const auto error = endpoint.LastError()) throw std::runtime_error(error->Describe());
  const bool waited = report.status.code == device::Code::kTimeout;
  throw host::Error("measure by", "QP " + std::to_string(endpoint.qpn()), host::Describe(report.status),
                    waited ? "See whether the other side still runs, or wait longer (--timeout)"
                           : "See what the other side says, and warpverbs-doctor of both machines");
}

void Party::Stop(Report& report) { arch::Cpu::CompareSwap(&report.abort, 0, Report::kStopped); }

std::string Party::Describe() const {
  return std::string("initiator: ") + initiator_->name() + "\nmessages: " + memory_->Describe() + "\n" +
         endpoints_.front().Describe();
}

}  // namespace warpverbs::perf
