#include <algorithm>

#include "perf/options/command_line.hpp"

namespace warpverbs::perf {
namespace {

struct Contradiction {
  bool broken;
  std::string clause;
};

std::string FirstBroken(const std::vector<Contradiction>& rules) {
  const auto broken =
      std::find_if(rules.begin(), rules.end(), [](const Contradiction& rule) { return rule.broken; });
  return broken == rules.end() ? "" : broken->clause;
}

struct Facts {
  explicit Facts(const CommandLine& line)
      : atomic(line.test == "atomic"),
        latency(line.measure == "latency"),
        kernels(line.initiator == "gpu" || line.initiator == "both"),
        threads(line.initiator != "gpu"),
        cuda(line.use_cuda || !line.cuda_bus_id.empty()),
        alone((line.scope.empty() || line.scope == "thread") && line.sharing != "shared") {}

  bool atomic, latency, kernels, threads, cuda, alone;
};

std::string OfPlot(const CommandLine& line) {
  return FirstBroken({
      {line.plot.empty() && line.words.size() > 1,
       "one HOST at most: '" + (line.words.size() > 1 ? line.words[1] : "") + "' is a second one"},
      {!line.plot.empty() && line.words.empty(),
       "--plot needs the JSON files to draw, which --out_json_file wrote"},
      {!line.plot.empty() && !line.plot.ends_with(".svg") && !line.plot.ends_with(".png"),
       "--plot draws to a file that ends in .svg or .png, and '" + line.plot + "' does not"},
  });
}

std::string OfMessages(const CommandLine& line, const Facts& facts) {
  return FirstBroken({
      {line.all && line.size.has_value(), "-a measures all sizes, -s one: choose"},
      {facts.atomic && line.all, "an atomic has 8 bytes: -a has nothing to vary"},
      {facts.atomic && line.size && *line.size != 8, "an atomic has 8 bytes: leave out -s"},
      {!facts.atomic && !line.atomic_type.empty(), "-A is for --test atomic"},
      {line.duration && line.iterations, "-D measures for a time, -n a number of messages: choose"},
      {line.margin && !line.duration, "-f is the margin of a duration: it needs -D"},
      {line.margin && line.duration && 2 * *line.margin >= *line.duration,
       "the margins of -f, at both ends, leave nothing of -D"},
      {line.duration && line.data_validation,
       "--data_validation goes by number of messages: take -n in place of -D"},
      {line.rx_depth && line.test != "send", "-r is for receives: take --test send"},
      {line.inline_bytes && (!facts.latency || line.test != "write"),
       "-I is for the latency of writes: elsewhere nothing travels in the work queue entry"},
  });
}

std::string OfLatency(const CommandLine& line, const Facts& facts) {
  if (!facts.latency) return line.max_p99 ? "--max-p99 judges latencies: take --measure latency" : "";
  return FirstBroken({
      {line.bidirectional, "latencies are of one message at a time: -b does not apply"},
      {line.qps && *line.qps != 1, "latencies are of one queue pair: -q does not apply"},
      {line.tx_depth || line.rx_depth || line.cq_mod,
       "latencies are of one message at a time: -t, -r and -Q do not apply"},
      {line.batch && *line.batch != 1, "latencies are of one message at a time: -l (--batch) does not apply"},
      {!facts.alone, "latencies are those of one thread: --scope and --sharing do not apply"},
      {line.no_peak, "latencies have no peak bandwidth: -N does not apply"},
      {line.gbits, "latencies are in microseconds: --report_gbits does not apply"},
      {line.warm_up, "--perform_warm_up is for bandwidths"},
      {line.data_validation,
       "--data_validation is for bandwidths: a latency test looks at each message's last byte"},
      {line.min_bandwidth.has_value(), "--min-bw judges bandwidths, not latencies"},
      {facts.threads && line.test == "write" && (facts.cuda || line.use_rocm || !line.use_hl.empty()),
       "threads of the processor cannot watch a device's memory for a write: take --initiator gpu, or --test "
       "read or "
       "send"},
  });
}

std::string OfPosting(const CommandLine& line, const Facts& facts) {
  const Posting posting{.scope = line.scope == "block"  ? CallScope::kBlock
                                 : line.scope == "warp" ? CallScope::kWarp
                                                        : CallScope::kThread,
                        .shared = line.sharing == "shared",
                        .posters = line.posters.value_or(1),
                        .batch = line.batch.value_or(1)};
  const uint32_t depth = line.tx_depth.value_or(128);
  const uint32_t together = posting.alone() ? posting.batch : posting.by_round();
  return FirstBroken({
      {line.scope == "block" && line.sharing != "shared",
       "the warps of a block share the queue: take --sharing shared"},
      {posting.posters > 1 && !posting.shared, "several --posters share the queue: take --sharing shared"},
      {together > depth, "the posters of a queue post " + std::to_string(together) +
                             " messages at a time, and the queue of -t has room for " +
                             std::to_string(depth)},
      {line.cq_mod && *line.cq_mod > depth,
       "-Q asks for a completion every " + std::to_string(line.cq_mod.value_or(0)) +
           " messages, and the queue of -t has room for " + std::to_string(depth)},
      {line.data_validation && posting.posters > 1 &&
           (line.atomic_type == "CMP_AND_SWAP" || line.test == "send"),
       "several --posters send and compare in no order that --data_validation could know"},
      {!line.placement.empty() && !facts.kernels,
       "--placement is for the queues of kernels: take --initiator gpu"},
  });
}

std::string OfMemory(const CommandLine& line, const Facts& facts) {
  const int kinds = (facts.cuda ? 1 : 0) + (line.use_rocm ? 1 : 0) + (line.use_hl.empty() ? 0 : 1);
  return FirstBroken({
      {kinds > 1, "messages lie in one kind of memory: choose one of --use_cuda, --use_rocm and --use_hl"},
      {line.use_cuda && !line.cuda_bus_id.empty(),
       "--use_cuda and --use_cuda_bus_id both name a GPU: choose"},
      {line.cuda_dma_buf && !facts.cuda, "--use_cuda_dmabuf needs --use_cuda"},
      {line.rocm_dma_buf && !line.use_rocm, "--use_rocm_dmabuf needs --use_rocm"},
      {line.cuda_mem_type && !facts.cuda, "--cuda_mem_type needs --use_cuda"},
      {line.cuda_mem_type && *line.cuda_mem_type != 0,
       "a NIC reaches memory of cudaMalloc() alone: --cuda_mem_type=1 (managed) and 4 (malloc) would need "
       "on-demand "
       "paging"},
      {facts.kernels && (line.use_rocm || !line.use_hl.empty()),
       "kernels of an NVIDIA GPU post: their messages lie in its memory or in the host's"},
      {facts.kernels && facts.cuda && line.placement == "host",
       "--use_cuda puts messages into the GPU's memory, --placement host into the host's: choose"},
  });
}

}  // namespace

std::string ContradictionOf(const CommandLine& line) {
  if (!line.plot.empty() || line.words.size() > 1) return OfPlot(line);
  const Facts facts(line);
  for (const std::string& clause :
       {OfMessages(line, facts), OfLatency(line, facts), OfPosting(line, facts), OfMemory(line, facts)}) {
    if (!clause.empty()) return clause;
  }
  if (line.tcp_port == 0 && !line.words.empty())
    return "a client needs the server's port: -p 0 is for a server";
  return "";
}

}  // namespace warpverbs::perf
