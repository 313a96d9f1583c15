#include "perf/options/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "common/fabric_options.hpp"
#include "perf/options/command_line.hpp"
#include "text/refusal.hpp"

namespace warpverbs::perf {
namespace {

constexpr const char* kFooter = R"(
One side without HOST waits, the other one measures and prints; both print the same rows. What concerns both is
compared, and must be the same on both sides.

Units: MiB are 2^20 bytes, Gb 10^9 bits, Mpps 10^6 messages a second. A -n counts for each queue pair.

Exit status: 0; 1 if it failed, if data arrived changed, or a threshold was missed; 2 a wrong command line.
docs/warpverbs-perf.md says how each figure is made. Without a NIC: softhca -- warpverbs-perf)";

/// Options of perftest's that have no counterpart, and why.
const std::map<std::string, std::string>& Unsupported() {
  constexpr char kThresholds[] = "take --min-bw or --max-p99, by which the exit status says what was missed";
  constexpr char kUnlimited[] = "messages go as fast as they can";
  constexpr char kGid[] = "the two sides meet by either IP, and messages go from the GID that -x names";
  constexpr char kReliable[] = "connections are reliable, and there is no multicast on them";
  constexpr char kOwnReceives[] = "each queue pair has a receive queue of its own";
  constexpr char kOnePort[] = "one port is measured at a time";
  constexpr char kPolled[] = "completions are polled";
  static const std::map<std::string, std::string> reasons{
      {"--odp", "memory is registered, not paged on demand"},
      {"--use_data_direct", "the library has no data-direct device"},
      {"--use_cuda_pcie_mapping", "the driver chooses the way; programs ask for PCIe by Access::over_pcie"},
      {"--gpu_touch", "kernels that post are --initiator gpu"},
      {"--run_infinitely", "every measurement ends: take -D"},
      {"--use_srq", kOwnReceives},
      {"--use-srq", kOwnReceives},
      {"--recv_post_list", "receives are posted as fast as they are taken"},
      {"--inline_recv", "what arrives lies in the messages' memory"},
      {"-C", "times are in microseconds"},
      {"--report-cycles", "times are in microseconds"},
      {"-H", "percentiles are in the table and the JSON"},
      {"--report-histogram", "percentiles are in the table and the JSON"},
      {"-U", "percentiles are in the table and the JSON"},
      {"--report-unsorted", "percentiles are in the table and the JSON"},
      {"-T", "the type of service is the traffic class: take --tclass"},
      {"--tos", "the type of service is the traffic class: take --tclass"},
      {"-W", "the counters of a port are in sysfs"},
      {"--report-counters", "the counters of a port are in sysfs"},
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
      {"--cpu_util", "time(1) tells the processor's time"},
      {"--output", "the table is always whole: take --out_json_file for single figures"},
      {"-g", kReliable},
      {"--mcg", kReliable},
      {"-M", kReliable},
      {"--MGID", kReliable},
      {"-o", "how many reads and atomics are under way at the peer is not to be chosen"},
      {"--outs", "how many reads and atomics are under way at the peer is not to be chosen"},
      {"-e", kPolled},
      {"--events", kPolled},
      {"-X", kPolled},
      {"--vector", kPolled},
      {"-O", kOnePort},
      {"--dualport", kOnePort},
      {"--report-per-port", kOnePort},
      {"-z", "the two sides meet by TCP; -R connects by rdma_cm"},
      {"--com_rdma_cm", "the two sides meet by TCP; -R connects by rdma_cm"},
      {"--mr_per_qp", "one region has a part for each queue pair"},
      {"--use_hugepages", "memory lies in ordinary pages"},
      {"--mmap", "memory is the host's or a device's: take --use_cuda, --use_rocm or --use_hl"},
      {"--disable_pcie_relaxed", "memory is registered without relaxed ordering"},
      {"--dlid", "the two sides tell each other their addresses"},
      {"--dont_xchg_versions", "the two sides always compare what they are"},
      {"--force-link", "the link is what the port says"},
      {"--source_ip", "the two sides meet by whichever IP leads there"},
      {"--use_old_post_send", "messages are posted by the library's own queues"},
      {"--reversed", "the client measures: start the server on the other machine"},
      {"--wait_destroy", "nothing stays when a run has ended"},
      {"--typical_pkt_size", kUnlimited},
      {"--latency_gap", "a message follows when the one before it has ended"},
  };
  return reasons;
}

/// A number, which "nan" is to CLI11's ranges.
const CLI::Validator& Comparable() {
  static const CLI::Validator comparable(
      [](const std::string& text) {
        return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number" : std::string();
      },
      "");
  return comparable;
}

/// The connections that there are, where perftest has a choice.
const CLI::Validator& Reliable() {
  static const CLI::Validator reliable(
      [](const std::string& text) {
        return text == "RC" ? std::string() : "'" + text + "' is not measured: all connections are RC";
      },
      "");
  return reliable;
}

auto In(int64_t least, int64_t most) { return CLI::Range(least, most).description(""); }

void AddWhat(CLI::App& app, CommandLine& line) {
  app.add_option("HOST", line.words, "The server to measure with; without it this is the server")
      ->type_name("");
  app.add_option("--test", line.test, "What to post: write, read, send or atomic (write)")
      ->type_name("VERB")
      ->check(CLI::IsMember({"write", "read", "send", "atomic"}).description(""));
  app.add_option("--measure", line.measure, "bandwidth, latency or rate (bandwidth)")
      ->type_name("FIGURE")
      ->check(CLI::IsMember({"bandwidth", "latency", "rate"}).description(""));
  app.add_option("-A,--atomic_type", line.atomic_type, "FETCH_AND_ADD or CMP_AND_SWAP (FETCH_AND_ADD)")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"FETCH_AND_ADD", "CMP_AND_SWAP"}).description(""));
  app.add_option("-s,--size", line.size, "Bytes of a message (65536; latency 2, rate 8)")
      ->check(In(1, 1 << 30))
      ->type_name("BYTES");
  app.add_flag("-a,--all", line.all, "Measure sizes from 2 to 2^23");
  app.add_option("-n,--iters", line.iterations,
                 "Messages of each queue pair (1000; bandwidth of writes 5000)")
      ->check(In(5, 1 << 30))
      ->type_name("N");
  app.add_option("-D,--duration", line.duration, "Measure for so long in place of -n")
      ->check(CLI::Range(0.1, 86400.0).description(""))
      ->check(Comparable())
      ->type_name("SECONDS");
  app.add_option("-f,--margin", line.margin, "Leave out so much at both ends of -D (2, or a quarter of it)")
      ->check(CLI::Range(0.0, 43200.0).description(""))
      ->check(Comparable())
      ->type_name("SECONDS");
  app.add_flag("-b,--bidirectional", line.bidirectional, "Both sides send; the rows have the sum");
}

void AddFabric(CLI::App& app, CommandLine& line) {
  app.add_option("-p,--port", line.tcp_port,
                 "TCP port where the sides meet; a server takes 0 for a free one (18515)")
      ->check(In(0, 65535))
      ->type_name("PORT");
  app.add_option("-d,--ib-dev", line.fabric.nic, "NIC (NCCL_IB_HCA, or the first with an active port)")
      ->type_name("NAME");
  app.add_option("-i,--ib-port", line.nic_port, "Its port (the first active one)")
      ->check(In(1, 255))
      ->type_name("N");
  app.add_option("-x,--gid-index", line.fabric.gid_index,
                 "Send from this GID (NCCL_IB_GID_INDEX, or the best)")
      ->check(In(-1, 65535))
      ->type_name("INDEX");
  app.add_option("-m,--mtu", line.mtu, "256, 512, 1024, 2048 or 4096 at most (the least of both ports')")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}).description(""))
      ->type_name("BYTES");
  app.add_option("-S,--sl,--service-level", line.fabric.service_level, "Service level (NCCL_IB_SL, or 0)")
      ->check(In(0, 15))
      ->type_name("0-15");
  app.add_option("--tclass,--traffic-class", line.fabric.traffic_class, "Traffic class (NCCL_IB_TC, or 0)")
      ->check(In(0, 255))
      ->type_name("0-255");
  app.add_option("-L,--hop_limit", line.hop_limit, "Hop limit (64)")->check(In(0, 255))->type_name("N");
  app.add_option("--pkey_index", line.pkey_index, "Partition (0)")->check(In(0, 65535))->type_name("INDEX");
  app.add_option("-u,--qp-timeout", line.ack_timeout, "Wait 4.096 us * 2^N for an acknowledgement (18)")
      ->check(In(0, 31))
      ->type_name("N");
  app.add_option("--retry_count", line.retry_count, "Then send again so often (7)")
      ->check(In(0, 7))
      ->type_name("N");
  app.add_flag("-R,--rdma_cm", line.rdma_cm, "Connect the queue pairs by rdma_cm");
  app.add_option("--timeout", line.patience_s, "Give up where nothing comes for so long (30)")
      ->check(In(1, 86400))
      ->type_name("SECONDS");
}

void AddQueues(CLI::App& app, CommandLine& line) {
  app.add_option("-q,--qp", line.qps, "Queue pairs (1)")->check(In(1, 4096))->type_name("N");
  app.add_option("-t,--tx-depth", line.tx_depth, "Messages under way on each (128)")
      ->check(In(1, 32768))
      ->type_name("N");
  app.add_option("-r,--rx-depth", line.rx_depth, "Receives posted on each (512)")
      ->check(In(1, 32768))
      ->type_name("N");
  app.add_option("-Q,--cq-mod", line.cq_mod, "A completion every so many messages (100; 1 above 8192 bytes)")
      ->check(In(1, 32768))
      ->type_name("N");
  app.add_option("-l,--post_list,--batch", line.batch, "Messages of a thread by one doorbell (1; rate 32)")
      ->check(In(1, 32768))
      ->type_name("N");
  app.add_option("-c,--connection", line.connection, "RC: there are no others")
      ->check(Reliable())
      ->type_name("RC");
  app.add_option("-I,--inline_size", line.inline_bytes, "Writes up to this size travel in their entry (16)")
      ->check(In(0, 16))
      ->type_name("BYTES");
  app.add_option("--initiator", line.initiator, "Who posts: cpu, gpu, or both, one after the other (cpu)")
      ->check(CLI::IsMember({"cpu", "gpu", "both"}).description(""))
      ->type_name("WHO");
  app.add_option("--scope", line.scope, "Who posts together: thread, warp or block (thread)")
      ->check(CLI::IsMember({"thread", "warp", "block"}).description(""))
      ->type_name("WHO");
  app.add_option("--sharing", line.sharing, "exclusive or shared queues (exclusive)")
      ->check(CLI::IsMember({"exclusive", "shared"}).description(""))
      ->type_name("HOW");
  app.add_option("--posters", line.posters, "Threads, warps or blocks that share a queue (1)")
      ->check(In(1, 1024))
      ->type_name("N");
  app.add_option("--placement", line.placement,
                 "Where kernels' queues and messages lie: probe, gpu or host (probe)")
      ->check(CLI::IsMember({"probe", "gpu", "host"}).description(""))
      ->type_name("WHERE");
}

void AddMemory(CLI::App& app, CommandLine& line) {
  app.add_option("--use_cuda", line.use_cuda,
                 "Messages lie in the memory of this GPU, which posts if one does")
      ->check(In(0, 255))
      ->type_name("ORDINAL");
  app.add_option("--use_cuda_bus_id", line.cuda_bus_id, "The same by PCI address")->type_name("ADDRESS");
  app.add_flag("--use_cuda_dmabuf", line.cuda_dma_buf, "Registered by dma-buf, or not at all");
  app.add_option("--cuda_mem_type", line.cuda_mem_type, "0: memory of cudaMalloc()")
      ->check(In(0, 4))
      ->type_name("0");
  app.add_option("--use_rocm", line.use_rocm, "Messages lie in the memory of this AMD GPU")
      ->check(In(0, 255))
      ->type_name("ORDINAL");
  app.add_flag("--use_rocm_dmabuf", line.rocm_dma_buf, "Registered by dma-buf, or not at all");
  app.add_option("--use_hl", line.use_hl,
                 "Messages lie in the memory of this Gaudi; any: of the first that is free")
      ->type_name("ADDRESS");
}

void AddReport(CLI::App& app, CommandLine& line) {
  app.add_flag("-N,--noPeak", line.no_peak, "Keep no time of each message: no peak, as above 20000 messages");
  app.add_flag("--perform_warm_up", line.warm_up,
               "Post -t messages, and let them end, before the clock starts");
  app.add_flag("--data_validation", line.data_validation, "Look at each byte that arrived");
  app.add_flag("--report_gbits", line.gbits, "Bandwidths in Gb/s in place of MiB/s");
  app.add_flag("--out_json", line.json, "Write perftest_out.json too");
  app.add_option("--out_json_file", line.json_file, "Write that file")->type_name("FILE");
  app.add_option("--min-bw", line.min_bandwidth,
                 "Exit with 1 if the average of a row is less, in the unit of the report")
      ->check(CLI::NonNegativeNumber.description(""))
      ->check(Comparable())
      ->type_name("BANDWIDTH");
  app.add_option("--max-p99", line.max_p99, "Exit with 1 if the 99th percentile of a row is more")
      ->check(CLI::NonNegativeNumber.description(""))
      ->check(Comparable())
      ->type_name("USEC");
  app.add_option("--plot", line.plot,
                 "Draw the JSON files that are named to FILE (.svg, .png), and measure nothing")
      ->type_name("FILE");
  app.add_flag("--verbose", line.verbose, "Name each step as it begins");
  app.add_flag("-F,--CPU-freq", line.cpu_freq, "Taken for perftest's sake: nothing looks at clock rates");
}

/// What is wrong with a command line that draws: an option that measures. Empty: nothing.
std::string BesidePlot(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    const std::string& name = option->get_name();
    if (option->count() != 0 && name != "--plot" && name != "HOST")
      return "--plot measures nothing: leave out " + name;
  }
  return "";
}

/// Says that an option is perftest's and not ours; empty: it is nobody's.
std::string OfPerftest(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    const bool brief = word.size() > 2 && word[1] != '-';  // maybe with its value: -T106
    const auto found = Unsupported().find(brief ? word.substr(0, 2) : word.substr(0, word.find('=')));
    if (found != Unsupported().end())
      return app.get_name() + ": " + found->first + " of perftest is not supported: " + found->second + "; " +
             app.get_name() + " --help says more\n";
  }
  return "";
}

}  // namespace

std::variant<Options, Answer> ParseOptions(int argc, const char* const* argv) {
  CommandLine line;
  CLI::App app(
      "Measures RDMA that the processor posts and RDMA that a GPU's kernels post, in perftest's words.",
      "warpverbs-perf");
  app.footer(std::string(programs::kNcclHelp) + "\n" + kFooter);
  AddWhat(app, line);
  AddFabric(app, line);
  AddQueues(app, line);
  AddMemory(app, line);
  AddReport(app, line);
  app.set_version_flag("-V,--version", "warpverbs-perf " WARPVERBS_PROGRAMS_VERSION);
  try {
    app.parse(argc, argv);
    std::string clause = ContradictionOf(line);
    if (clause.empty() && !line.plot.empty()) clause = BesidePlot(app);
    if (!clause.empty()) throw CLI::ValidationError(clause, CLI::ExitCodes::ValidationError);
    return Complete(line, programs::Fabric(line.fabric, programs::ReadNcclEnvironment()));
  } catch (const CLI::CallForHelp&) {
    return Answer{app.help(), 0};
  } catch (const CLI::CallForVersion& version) {
    return Answer{std::string(version.what()) + '\n', 0};
  } catch (const std::exception& error) {
    const std::string of_perftest = OfPerftest(app);
    return Answer{of_perftest.empty() ? programs::Refusal(app, error) : of_perftest, 2};
  }
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
