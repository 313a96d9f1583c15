#include <algorithm>
#include <bit>

#include "perf/options/command_line.hpp"

namespace warpverbs::perf {
namespace {

constexpr uint64_t kMinSize = 2, kMaxSize = uint64_t{1} << 23;  // the range of -a
constexpr uint32_t kDefaultInlineBytes = 16;                    // for latencies of writes

Verb VerbOf(const CommandLine& line) {
  if (line.test == "read") return Verb::kRead;
  if (line.test == "send") return Verb::kSend;
  if (line.test != "atomic") return Verb::kWrite;
  return line.atomic_type == "CMP_AND_SWAP" ? Verb::kCompareSwap : Verb::kFetchAdd;
}

std::vector<uint64_t> SizesOf(const CommandLine& line, const Options& options) {
  if (options.is_atomic()) return {sizeof(uint64_t)};
  if (line.size) return {*line.size};
  if (line.all) {
    std::vector<uint64_t> sizes;
    for (uint64_t size = kMinSize; size <= kMaxSize; size *= 2) sizes.push_back(size);
    return sizes;
  }
  if (options.is_latency()) return {2};
  return {options.measure == Measure::kRate ? 8u : 65536u};
}

MemoryChoice MemoryOf(const CommandLine& line) {
  using Kind = MemoryChoice::Kind;
  MemoryChoice choice;
  if (line.use_cuda || !line.cuda_bus_id.empty()) {
    choice = {Kind::kCuda, line.use_cuda.value_or(0), line.cuda_bus_id, line.cuda_dma_buf,
              line.cuda_over_pcie};
  } else if (line.use_rocm) {
    choice = {Kind::kRocm, *line.use_rocm, "", line.rocm_dma_buf};
  } else if (!line.use_hl.empty()) {
    choice = {Kind::kGaudi, 0, line.use_hl == "any" ? "" : line.use_hl, false};
  }
  return choice;
}

template <class T>
std::optional<T> As(const std::optional<int>& value) {
  return value ? std::optional(static_cast<T>(*value)) : std::nullopt;
}

void FillPosting(const CommandLine& line, Options& options) {
  Posting& posting = options.posting;
  if (line.scope == "warp") posting.scope = CallScope::kWarp;
  if (line.scope == "block") posting.scope = CallScope::kBlock;
  posting.shared = line.sharing == "shared";
  posting.posters = line.posters.value_or(1);
  posting.batch = line.batch.value_or(options.measure == Measure::kRate && posting.single_thread() ? 32 : 1);
  if (line.initiator == "gpu") options.initiators = {InitiatorKind::kGpu};
  if (line.initiator == "both") options.initiators = {InitiatorKind::kCpu, InitiatorKind::kGpu};
  if (line.placement == "host") options.placement = host::Placement::kHost;
  if (line.placement == "gpu") options.placement = host::Placement::kGpu;
}

void FillCounts(const CommandLine& line, Options& options) {
  options.sizes = SizesOf(line, options);
  options.all_sizes = line.all;
  options.duration_s = line.duration.value_or(0);
  const bool bandwidth_of_writes = options.verb == Verb::kWrite && !options.is_latency();
  if (!line.duration) options.iterations = line.iterations.value_or(bandwidth_of_writes ? 5000 : 1000);
  options.margin_s = line.margin.value_or(std::min(2.0, options.duration_s / 4));
  options.qps = line.qps.value_or(1);
  options.tx_depth = line.tx_depth.value_or(128);
  if (options.iterations != 0) options.tx_depth = std::min(options.tx_depth, options.iterations);
  options.tx_depth =
      std::max(options.tx_depth, options.posting.single_thread() ? 1 : options.posting.messages_per_round());
  options.posting.batch = std::min(options.posting.batch, options.tx_depth);
  options.rx_depth = line.rx_depth.value_or(512);
  options.cq_mod = line.cq_mod.value_or(0);
  if (options.is_latency() && options.verb == Verb::kWrite)
    options.inline_bytes = line.inline_bytes.value_or(kDefaultInlineBytes);
}

}  // namespace

uint32_t Options::CqModFor(uint64_t bytes) const {
  constexpr uint64_t kLong = 8192;  // perftest signals every message above this size
  const uint32_t wanted = cq_mod != 0 ? cq_mod : bytes > kLong && !all_sizes ? 1 : 100;
  // A thread without room for a batch waits for a completion, so an outstanding message must be signaled.
  if (posting.single_thread()) return std::min(wanted, tx_depth - posting.batch + 1);
  // Each poster may have this many unsignaled messages. Together they must not fill the queue.
  return std::max(1u, std::min(wanted, Depth() / (2 * posting.posters)));
}

uint32_t Options::Depth() const {
  // A single thread counts its outstanding messages. Groups rely on the queue, whose depth is a power of two.
  return posting.single_thread() ? std::bit_ceil(tx_depth) : std::bit_floor(tx_depth);
}

Options Complete(const CommandLine& line, const programs::DeviceSelection& selection) {
  Options options;
  options.verb = VerbOf(line);
  options.measure = line.measure == "latency" ? Measure::kLatency
                    : line.measure == "rate"  ? Measure::kRate
                                              : Measure::kBandwidth;
  if (line.plot.empty()) {
    options.host = line.words.empty() ? "" : line.words.front();
  } else {
    options.plot_file = line.plot;
    options.plotted = line.words;
  }
  options.tcp_port = static_cast<uint16_t>(line.tcp_port.value_or(options.tcp_port));
  options.rdma_cm = line.rdma_cm;
  options.selection = selection;
  options.nic_port = static_cast<uint8_t>(line.nic_port.value_or(0));
  options.mtu = static_cast<uint32_t>(line.mtu.value_or(0));
  options.ack_timeout = As<uint8_t>(line.ack_timeout);
  options.retry_count = As<uint8_t>(line.retry_count);
  options.hop_limit = As<uint8_t>(line.hop_limit);
  options.pkey_index = static_cast<uint16_t>(line.pkey_index.value_or(0));
  FillPosting(line, options);
  FillCounts(line, options);
  options.bidirectional = line.bidirectional;
  options.no_peak = line.no_peak;
  options.warm_up = line.warm_up;
  options.data_validation = line.data_validation;
  if (line.timeout_s) options.timeout = options.wait_for_client = std::chrono::seconds(*line.timeout_s);
  options.memory = MemoryOf(line);
  options.gbits = line.gbits;
  options.json_file = !line.json_file.empty() ? line.json_file : line.json ? "perftest_out.json" : "";
  options.verbose = line.verbose;
  options.min_bandwidth = line.min_bandwidth;
  options.max_p99_us = line.max_p99;
  return options;
}

}  // namespace warpverbs::perf
