#include <algorithm>

#include "perf/options/command_line.hpp"

namespace warpverbs::perf {
namespace {

struct Rule {
  bool broken;
  std::string clause;
};

std::string FirstBroken(const std::vector<Rule>& rules) {
  const auto broken = std::find_if(rules.begin(), rules.end(), [](const Rule& rule) { return rule.broken; });
  return broken == rules.end() ? "" : broken->clause;
}

struct Facts {
  explicit Facts(const CommandLine& line)
      : atomic(line.test == "atomic"),
        latency(line.measure == "latency"),
        kernels(line.initiator == "gpu" || line.initiator == "both"),
        threads(line.initiator != "gpu"),
        cuda(line.use_cuda || !line.cuda_bus_id.empty()),
        single_thread((line.scope.empty() || line.scope == "thread") && line.sharing != "shared") {}

  bool atomic, latency, kernels, threads, cuda, single_thread;
};

std::string PlotContradiction(const CommandLine& line) {
  return FirstBroken({
      {line.plot.empty() && line.words.size() > 1,
       "unexpected argument '" + (line.words.size() > 1 ? line.words[1] : "") + "' after HOST"},
      {!line.plot.empty() && line.words.empty(), "--plot needs the JSON files to draw (--out_json_file)"},
      {!line.plot.empty() && !line.plot.ends_with(".svg") && !line.plot.ends_with(".png"),
       "--plot: '" + line.plot + "' does not end in .svg or .png"},
  });
}

std::string MessageContradiction(const CommandLine& line, const Facts& facts) {
  return FirstBroken({
      {line.all && line.size.has_value(), "-a measures all sizes and -s one: use one of them"},
      {facts.atomic && line.all, "-a does not apply to atomics, which have 8 bytes"},
      {facts.atomic && line.size && *line.size != 8, "-s does not apply to atomics, which have 8 bytes"},
      {!facts.atomic && !line.atomic_type.empty(), "-A needs --test atomic"},
      {line.duration && line.iterations, "-D limits the time and -n the messages: use one of them"},
      {line.margin && !line.duration, "-f needs -D"},
      {line.margin && line.duration && 2 * *line.margin >= *line.duration,
       "two margins of -f do not fit into the time of -D"},
      {line.duration && line.data_validation, "--data_validation needs -n, not -D"},
      {line.rx_depth && line.test != "send", "-r needs --test send"},
      {line.inline_bytes && (!facts.latency || line.test != "write"),
       "-I applies only to latencies of writes: no other message is inlined"},
  });
}

std::string LatencyContradiction(const CommandLine& line, const Facts& facts) {
  if (!facts.latency) return line.max_p99 ? "--max-p99 needs --measure latency" : "";
  return FirstBroken({
      {line.bidirectional, "-b does not apply to latencies: one message is outstanding at a time"},
      {line.qps && *line.qps != 1, "-q does not apply to latencies: they use one queue pair"},
      {line.tx_depth || line.rx_depth || line.cq_mod,
       "-t, -r and -Q do not apply to latencies: one message is outstanding at a time"},
      {line.batch && *line.batch != 1,
       "-l (--batch) does not apply to latencies: one message is outstanding at a time"},
      {!facts.single_thread, "--scope and --sharing do not apply to latencies: a single thread posts"},
      {line.no_peak, "-N does not apply to latencies: they have no peak bandwidth"},
      {line.gbits, "--report_gbits does not apply to latencies: they are in microseconds"},
      {line.warm_up, "--perform_warm_up does not apply to latencies"},
      {line.data_validation,
       "--data_validation does not apply to latencies: they check the last byte of each message"},
      {line.min_bandwidth.has_value(), "--min-bw does not apply to latencies: use --max-p99"},
      {facts.threads && line.test == "write" && (facts.cuda || line.use_rocm || !line.use_hl.empty()),
       "CPU threads cannot poll device memory for a write: use --initiator gpu, --test read or --test send"},
  });
}

std::string PostingContradiction(const CommandLine& line, const Facts& facts) {
  const Posting posting{.scope = line.scope == "block"  ? CallScope::kBlock
                                 : line.scope == "warp" ? CallScope::kWarp
                                                        : CallScope::kThread,
                        .shared = line.sharing == "shared",
                        .posters = line.posters.value_or(1),
                        .batch = line.batch.value_or(1)};
  const uint32_t depth = line.tx_depth.value_or(128);
  const uint32_t together = posting.single_thread() ? posting.batch : posting.messages_per_round();
  return FirstBroken({
      {line.scope == "block" && line.sharing != "shared",
       "--scope block needs --sharing shared: the warps of a block share the queue"},
      {posting.posters > 1 && !posting.shared, "several --posters need --sharing shared"},
      {together > depth, "the posters of a queue post " + std::to_string(together) +
                             " messages at a time, more than the " + std::to_string(depth) + " of -t"},
      {line.cq_mod && *line.cq_mod > depth, "-Q " + std::to_string(line.cq_mod.value_or(0)) +
                                                " is more than the " + std::to_string(depth) + " of -t"},
      {line.data_validation && posting.posters > 1 &&
           (line.atomic_type == "CMP_AND_SWAP" || line.test == "send"),
       "--data_validation does not apply to several --posters that send or compare: their order is unknown"},
      {!line.placement.empty() && !facts.kernels, "--placement needs --initiator gpu"},
  });
}

std::string MemoryContradiction(const CommandLine& line, const Facts& facts) {
  const int kinds = (facts.cuda ? 1 : 0) + (line.use_rocm ? 1 : 0) + (line.use_hl.empty() ? 0 : 1);
  return FirstBroken({
      {kinds > 1, "--use_cuda, --use_rocm and --use_hl exclude each other: messages use one kind of memory"},
      {line.use_cuda && !line.cuda_bus_id.empty(),
       "--use_cuda and --use_cuda_bus_id both select a GPU: use one of them"},
      {line.cuda_dma_buf && !facts.cuda, "--use_cuda_dmabuf needs --use_cuda"},
      {line.cuda_over_pcie && !facts.cuda, "--use_cuda_pcie_mapping needs --use_cuda"},
      {line.rocm_dma_buf && !line.use_rocm, "--use_rocm_dmabuf needs --use_rocm"},
      {line.cuda_mem_type && !facts.cuda, "--cuda_mem_type needs --use_cuda"},
      {line.cuda_mem_type && *line.cuda_mem_type != 0,
       "--cuda_mem_type supports 0 (cudaMalloc) only: other types need on-demand paging"},
      {facts.kernels && (line.use_rocm || !line.use_hl.empty()),
       "--initiator gpu needs the memory of an NVIDIA GPU or of the host"},
      {facts.kernels && facts.cuda && line.placement == "host",
       "--use_cuda puts messages in GPU memory and --placement host in host memory: use one of them"},
  });
}

}  // namespace

std::string FindContradiction(const CommandLine& line) {
  if (!line.plot.empty() || line.words.size() > 1) return PlotContradiction(line);
  const Facts facts(line);
  for (const std::string& clause : {MessageContradiction(line, facts), LatencyContradiction(line, facts),
                                    PostingContradiction(line, facts), MemoryContradiction(line, facts)}) {
    if (!clause.empty()) return clause;
  }
  if (line.tcp_port == 0 && !line.words.empty())
    return "-p 0 is for a server: a client needs the server's port";
  return "";
}

}  // namespace warpverbs::perf
