#include "perf/options/options.hpp"

#include <map>

#include "perf/options/command_line.hpp"

namespace warpverbs::perf {
namespace {

using programs::Count;
using programs::Integer;
using programs::Number;
using programs::OneOf;

constexpr const char* kFooter = R"(
The side without HOST is the server and waits; the client measures. Both print the same rows. Options that concern
both sides are compared when they meet, and must be equal.

docs/warpverbs-perf.md explains how each figure is measured. Without a NIC: softhca -- warpverbs-perf

Units:
  1 MiB is 2^20 bytes, 1 Gb is 10^9 bits, 1 Mpps is 10^6 messages a second. -s takes the suffixes k, M and G for
  2^10, 2^20 and 2^30 bytes; -n takes them for 10^3, 10^6 and 10^9 messages. -n counts the messages of each queue
  pair.

Exit status:
  0  success
  1  an error, changed data, or a missed threshold
  2  the command line is invalid)";

/// Options of perftest that have no counterpart, each with the reason.
const std::map<std::string, std::string>& Unsupported() {
  constexpr char kThresholds[] = "use --min-bw or --max-p99, which set the exit status";
  constexpr char kUnlimited[] = "messages are sent as fast as possible";
  constexpr char kGid[] = "the sides meet by either IP version, and -x selects the GID";
  constexpr char kReliable[] = "all connections are reliable, and reliable connections have no multicast";
  constexpr char kOwnReceives[] = "each queue pair has a receive queue of its own";
  constexpr char kOnePort[] = "one port is measured at a time";
  constexpr char kPolled[] = "completions are polled";
  constexpr char kMicroseconds[] = "times are in microseconds";
  constexpr char kPercentiles[] = "percentiles are in the table and in the JSON";
  constexpr char kTrafficClass[] = "the type of service is the traffic class: use --tclass";
  constexpr char kCounters[] = "the counters of a port are in sysfs";
  constexpr char kOutstanding[] = "the number of outstanding reads and atomics at the peer is fixed";
  constexpr char kTcp[] = "the sides meet by TCP; -R connects by rdma_cm";
  static const std::map<std::string, std::string> reasons{
      {"--odp", "memory is registered, not paged on demand"},
      {"--use_data_direct", "the library does not use data-direct devices"},
      {"--gpu_touch", "use --initiator gpu for kernels that post"},
      {"--run_infinitely", "every measurement ends: use -D"},
      {"--use_srq", kOwnReceives},
      {"--use-srq", kOwnReceives},
      {"--recv_post_list", "receives are posted again as soon as they complete"},
      {"--inline_recv", "messages arrive in the memory that was registered for them"},
      {"-C", kMicroseconds},
      {"--report-cycles", kMicroseconds},
      {"-H", kPercentiles},
      {"--report-histogram", kPercentiles},
      {"-U", kPercentiles},
      {"--report-unsorted", kPercentiles},
      {"-T", kTrafficClass},
      {"--tos", kTrafficClass},
      {"-W", kCounters},
      {"--report-counters", kCounters},
      {"-w", kThresholds},
      {"--limit_bw", kThresholds},
      {"-y", kThresholds},
      {"--limit_msgrate", kThresholds},
      {"--burst_size", kUnlimited},
      {"--rate_limit", kUnlimited},
      {"--rate_limit_type", kUnlimited},
      {"--rate_units", kUnlimited},
      {"--report-both", "-b reports the sum of both directions"},
      {"--ipv6", kGid},
      {"--ipv6-addr", kGid},
      {"--cpu_util", "time(1) measures processor time"},
      {"--output", "the table is always complete: use --out_json_file for single figures"},
      {"-g", kReliable},
      {"--mcg", kReliable},
      {"-M", kReliable},
      {"--MGID", kReliable},
      {"-o", kOutstanding},
      {"--outs", kOutstanding},
      {"-e", kPolled},
      {"--events", kPolled},
      {"-X", kPolled},
      {"--vector", kPolled},
      {"-O", kOnePort},
      {"--dualport", kOnePort},
      {"--report-per-port", kOnePort},
      {"-z", kTcp},
      {"--com_rdma_cm", kTcp},
      {"--mr_per_qp", "all queue pairs use parts of one memory region"},
      {"--use_hugepages", "memory is in ordinary pages"},
      {"--mmap", "messages are in host or device memory: use --use_cuda, --use_rocm or --use_hl"},
      {"--disable_pcie_relaxed", "memory is registered without relaxed ordering"},
      {"--dlid", "the sides exchange their addresses"},
      {"--dont_xchg_versions", "the sides always compare versions"},
      {"--force-link", "the port determines the link layer"},
      {"--source_ip", "the route to the peer determines the source IP"},
      {"--use_old_post_send", "the library's own queues post all messages"},
      {"--reversed", "the client measures: start the server on the other machine"},
      {"--wait_destroy", "all resources are released at once when a run ends"},
      {"--typical_pkt_size", kUnlimited},
      {"--latency_gap", "each message is posted as soon as the one before it completes"},
  };
  return reasons;
}

void AddTest(CLI::App& app, CommandLine& line) {
  app.add_option("HOST", line.words, "Server to measure with; without it, this is the server")->type_name("");
  app.add_option("--test", line.test, "Operation to post: write, read, send or atomic (write)")
      ->type_name("VERB")
      ->check(OneOf({"write", "read", "send", "atomic"}));
  app.add_option("--measure", line.measure, "bandwidth, latency or rate (bandwidth)")
      ->type_name("FIGURE")
      ->check(OneOf({"bandwidth", "latency", "rate"}));
  app.add_option("-A,--atomic_type", line.atomic_type, "FETCH_AND_ADD or CMP_AND_SWAP (FETCH_AND_ADD)")
      ->type_name("TYPE")
      ->check(OneOf({"FETCH_AND_ADD", "CMP_AND_SWAP"}));
  app.add_option("-s,--size", line.size, "Size of a message in bytes (65536; latency 2, rate 8)")
      ->transform(programs::Bytes(1, 1 << 30))
      ->type_name("BYTES");
  app.add_flag("-a,--all", line.all, "Measure all powers of two from 2 to 2^23 bytes");
  app.add_option("-n,--iters", line.iterations,
                 "Messages of each queue pair (1000; bandwidth of writes 5000)")
      ->transform(Count(5, 1 << 30))
      ->type_name("N");
  app.add_option("-D,--duration", line.duration, "Measure for a time instead of -n messages")
      ->check(Number("a number of seconds from 0.1 to 86400", 0.1, 86400))
      ->type_name("SECONDS");
  app.add_option("-f,--margin", line.margin, "Time left out at both ends of -D (2, or a quarter of -D)")
      ->check(Number("a number of seconds from 0 to 43200", 0, 43200))
      ->type_name("SECONDS");
  app.add_flag("-b,--bidirectional", line.bidirectional, "Both sides send; rows show the sum");
}

void AddNetwork(CLI::App& app, CommandLine& line) {
  app.add_option("-p,--port", line.tcp_port,
                 "TCP port where the sides meet; with 0 a server takes a free port (18515)")
      ->check(Integer(0, 65535))
      ->type_name("PORT");
  app.add_option("-d,--ib-dev", line.device.nic, "NIC (NCCL_IB_HCA, or the first with an active port)")
      ->type_name("NAME");
  app.add_option("-i,--ib-port", line.nic_port, "Port of the NIC (the first active port)")
      ->check(Integer(1, 255))
      ->type_name("N");
  app.add_option("-x,--gid-index", line.device.gid_index, "GID to send from (NCCL_IB_GID_INDEX, or the best)")
      ->check(Integer(-1, 65535))
      ->type_name("INDEX");
  app.add_option("-m,--mtu", line.mtu, "256, 512, 1024, 2048 or 4096 (the smaller of the two ports)")
      ->check(OneOf({"256", "512", "1024", "2048", "4096"}))
      ->type_name("BYTES");
  app.add_option("-S,--sl,--service-level", line.device.service_level, "Service level (NCCL_IB_SL, or 0)")
      ->check(Integer(0, 15))
      ->type_name("0-15");
  app.add_option("--tclass,--traffic-class", line.device.traffic_class, "Traffic class (NCCL_IB_TC, or 0)")
      ->check(Integer(0, 255))
      ->type_name("0-255");
  app.add_option("-L,--hop_limit", line.hop_limit, "Hop limit (64)")->check(Integer(0, 255))->type_name("N");
  app.add_option("--pkey_index", line.pkey_index, "Index of the partition key (0)")
      ->check(Integer(0, 65535))
      ->type_name("INDEX");
  app.add_option("-u,--qp-timeout", line.ack_timeout,
                 "Retransmit after 4.096 us * 2^N without acknowledgement (18)")
      ->check(Integer(0, 31))
      ->type_name("N");
  app.add_option("--retry_count", line.retry_count, "Retransmissions before an error (7)")
      ->check(Integer(0, 7))
      ->type_name("N");
  app.add_flag("-R,--rdma_cm", line.rdma_cm, "Connect the queue pairs by rdma_cm");
  app.add_option("--timeout", line.timeout_s,
                 "Give up when nothing arrives for this time (30; a server waits an hour for its client)")
      ->check(Integer(1, 86400))
      ->type_name("SECONDS");
}

void AddQueues(CLI::App& app, CommandLine& line) {
  app.add_option("-q,--qp", line.qps, "Queue pairs (1)")->check(Integer(1, 4096))->type_name("N");
  app.add_option("-t,--tx-depth", line.tx_depth, "Outstanding messages of each queue pair (128)")
      ->check(Integer(1, 32768))
      ->type_name("N");
  app.add_option("-r,--rx-depth", line.rx_depth, "Receives posted to each queue pair (512)")
      ->check(Integer(1, 32768))
      ->type_name("N");
  app.add_option("-Q,--cq-mod", line.cq_mod, "Messages per completion (100; 1 above 8192 bytes)")
      ->check(Integer(1, 32768))
      ->type_name("N");
  app.add_option("-l,--post_list,--batch", line.batch, "Messages of each thread per doorbell (1; rate 32)")
      ->check(Integer(1, 32768))
      ->type_name("N");
  app.add_option("-c,--connection", line.connection, "RC, the only connection type")
      ->check(OneOf({"RC"}))
      ->type_name("RC");
  app.add_option("-I,--inline_size", line.inline_bytes, "Largest write that is inlined in its WQE (16)")
      ->check(Integer(0, kMaxInlineBytes))
      ->type_name("BYTES");
  app.add_option("--initiator", line.initiator, "Poster: cpu, gpu, or both in turn (cpu)")
      ->check(OneOf({"cpu", "gpu", "both"}))
      ->type_name("WHO");
  app.add_option("--scope", line.scope, "Group that posts together: thread, warp or block (thread)")
      ->check(OneOf({"thread", "warp", "block"}))
      ->type_name("WHO");
  app.add_option("--sharing", line.sharing, "exclusive or shared queues (exclusive)")
      ->check(OneOf({"exclusive", "shared"}))
      ->type_name("HOW");
  app.add_option("--posters", line.posters, "Threads, warps or blocks that share a queue (1)")
      ->check(Integer(1, 1024))
      ->type_name("N");
  app.add_option("--placement", line.placement,
                 "Location of the queues and messages of kernels: probe, gpu or host (probe)")
      ->check(OneOf({"probe", "gpu", "host"}))
      ->type_name("WHERE");
}

void AddMemory(CLI::App& app, CommandLine& line) {
  app.add_option("--use_cuda", line.use_cuda,
                 "Put messages in the memory of this NVIDIA GPU; with --initiator gpu it also posts")
      ->check(Integer(0, 255))
      ->type_name("ORDINAL");
  app.add_option("--use_cuda_bus_id", line.cuda_bus_id, "Like --use_cuda, by PCI address")
      ->type_name("ADDRESS");
  app.add_flag("--use_cuda_dmabuf", line.cuda_dma_buf, "Register GPU memory by dma-buf only");
  app.add_flag("--use_cuda_pcie_mapping", line.cuda_over_pcie,
               "Let NICs reach GPU memory over PCIe, also where the driver would choose another way");
  app.add_option("--cuda_mem_type", line.cuda_mem_type, "0: memory of cudaMalloc(), the only type")
      ->check(Integer(0, 4))
      ->type_name("0");
  app.add_option("--use_rocm", line.use_rocm, "Put messages in the memory of this AMD GPU")
      ->check(Integer(0, 255))
      ->type_name("ORDINAL");
  app.add_flag("--use_rocm_dmabuf", line.rocm_dma_buf, "Register GPU memory by dma-buf only");
  app.add_option("--use_hl", line.use_hl,
                 "Put messages in the memory of this Gaudi; \"any\" takes the first free one")
      ->type_name("ADDRESS");
}

void AddReport(CLI::App& app, CommandLine& line) {
  app.add_flag("-N,--noPeak", line.no_peak, "Do not time each message: no peak, as above 20000 messages");
  app.add_flag("--perform_warm_up", line.warm_up, "Post and complete -t messages before the clock starts");
  app.add_flag("--data_validation", line.data_validation, "Compare every byte that arrives");
  app.add_flag("--report_gbits", line.gbits, "Report bandwidths in Gb/s instead of MiB/s");
  app.add_flag("--out_json", line.json, "Also write perftest_out.json");
  app.add_option("--out_json_file", line.json_file, "Also write this JSON file")->type_name("FILE");
  app.add_option("--min-bw", line.min_bandwidth,
                 "Exit with 1 if the average of a row is lower, in the unit of the report")
      ->check(Number("a bandwidth of at least 0, in the unit of the report", 0))
      ->type_name("BANDWIDTH");
  app.add_option("--max-p99", line.max_p99, "Exit with 1 if the 99th percentile of a row is higher")
      ->check(Number("a time of at least 0 microseconds", 0))
      ->type_name("USEC");
  app.add_option("--plot", line.plot, "Draw the given JSON files to FILE (.svg or .png) instead of measuring")
      ->type_name("FILE");
  app.add_flag("--verbose", line.verbose, "Print each step when it begins");
  app.add_flag("-F,--CPU-freq", line.cpu_freq, "Ignored, for compatibility with perftest");
}

/// Returns what is wrong with a command line that draws: the first option that measures; "" if there is none.
std::string FindOptionBesidePlot(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    const std::string& name = option->get_name();
    if (option->count() != 0 && name != "--plot" && name != "HOST")
      return "--plot does not measure: leave out " + name;
  }
  return "";
}

/// Returns a line that names an option of perftest that is not supported here; "" if there is none.
std::string RefusePerftestOption(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    const bool brief = word.size() > 2 && word[1] != '-';  // may have its value attached: -T106
    const auto found = Unsupported().find(brief ? word.substr(0, 2) : word.substr(0, word.find('=')));
    if (found != Unsupported().end())
      return app.get_name() + ": " + found->first + " of perftest is not supported: " + found->second +
             ". See " + app.get_name() + " --help.\n";
  }
  return "";
}

}  // namespace

std::variant<Options, programs::EarlyExit> ParseOptions(int argc, const char* const* argv) {
  CommandLine line;
  Options options;
  CLI::App app(
      "Measures RDMA between two sides, posted by the CPU or by GPU kernels, with the options of perftest.",
      "warpverbs-perf");
  app.footer(std::string(programs::kNcclHelp) + "\n" + kFooter);
  AddTest(app, line);
  AddNetwork(app, line);
  AddQueues(app, line);
  AddMemory(app, line);
  AddReport(app, line);
  app.set_version_flag("-V,--version", "warpverbs-perf " WARPVERBS_PROGRAMS_VERSION);
  auto exit = programs::ParseCommandLine(app, argc, argv, [&] {
    std::string clause = FindContradiction(line);
    if (clause.empty() && !line.plot.empty()) clause = FindOptionBesidePlot(app);
    if (!clause.empty()) throw CLI::ValidationError(clause, CLI::ExitCodes::ValidationError);
    options = Complete(line, programs::DeviceSelection(line.device, programs::ReadNcclEnvironment()));
  });
  if (!exit) return options;
  if (const std::string refusal = RefusePerftestOption(app); exit->status != 0 && !refusal.empty())
    exit->text = refusal;
  return *exit;
}

const char* ToString(Verb verb) {
  constexpr const char* kNames[] = {"write", "read", "send", "fetch-add", "compare-swap"};
  return kNames[static_cast<size_t>(verb)];
}

const char* ToString(Measure measure) {
  constexpr const char* kNames[] = {"bandwidth", "latency", "rate"};
  return kNames[static_cast<size_t>(measure)];
}

const char* ToString(CallScope scope) {
  constexpr const char* kNames[] = {"thread", "warp", "block"};
  return kNames[static_cast<size_t>(scope)];
}

}  // namespace warpverbs::perf
