#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "perf/options/command_line.hpp"

namespace warpverbs::perf {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

std::variant<Options, programs::EarlyExit> Parse(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"warpverbs-perf"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return ParseOptions(static_cast<int>(argv.size()), argv.data());
}

std::vector<std::string> Words(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

Options Accepted(const std::string& line) {
  const auto parsed = Parse(Words(line));
  const auto* const answer = std::get_if<programs::EarlyExit>(&parsed);
  EXPECT_EQ(answer, nullptr) << line << ": " << (answer != nullptr ? answer->text : "");
  return answer != nullptr ? Options{} : std::get<Options>(parsed);
}

TEST(PerfOptions, HasTheDefaultsOfPerftest) {
  const Options bandwidth = Accepted("host");
  EXPECT_EQ(bandwidth.host, "host");
  EXPECT_EQ(bandwidth.sizes, std::vector<uint64_t>{65536});
  EXPECT_EQ(bandwidth.iterations, 5000u);
  EXPECT_EQ(bandwidth.tx_depth, 128u);
  EXPECT_EQ(bandwidth.qps, 1u);
  EXPECT_EQ(bandwidth.tcp_port, 18515);
  EXPECT_EQ(bandwidth.CqModFor(65536), 1u);
  EXPECT_EQ(bandwidth.CqModFor(8192), 100u);
  const Options latency = Accepted("--measure latency");
  EXPECT_FALSE(latency.is_client());
  EXPECT_EQ(latency.sizes, std::vector<uint64_t>{2});
  EXPECT_EQ(latency.iterations, 1000u);
  for (const char* const line : {"--test read", "--test send", "--test atomic"})
    EXPECT_EQ(Accepted(line).iterations, 1000u) << line;
}

TEST(PerfOptions, GivesAServerAnHourUnlessATimeoutIsGiven) {
  EXPECT_EQ(Accepted("").wait_for_client, std::chrono::hours(1));
  EXPECT_EQ(Accepted("").timeout, std::chrono::seconds(30));
  EXPECT_EQ(Accepted("--timeout 7").wait_for_client, std::chrono::seconds(7));
  EXPECT_EQ(Accepted("--timeout 7").timeout, std::chrono::seconds(7));
}

TEST(PerfOptions, PassesTheMappingOverPcie) {
  EXPECT_TRUE(Accepted("--use_cuda=0 --use_cuda_pcie_mapping").memory.over_pcie);
  EXPECT_FALSE(Accepted("--use_cuda=0").memory.over_pcie);
}

TEST(PerfOptions, LetsAServerPostWhenBothSidesSendOrItAnswers) {
  for (const char* const line : {"-b", "--measure latency", "--measure latency --test send"})
    EXPECT_TRUE(Accepted(line).posts()) << line;
  for (const char* const line :
       {"", "--test send", "--measure latency --test read", "--measure latency --test atomic"}) {
    EXPECT_FALSE(Accepted(line).posts()) << line;
    EXPECT_TRUE(Accepted(std::string(line) + " server").posts()) << line;
  }
}

TEST(PerfOptions, UnderstandsSuffixes) {
  const Options options = Accepted("-s 64k -n 2M");
  EXPECT_EQ(options.sizes, std::vector<uint64_t>{65536});
  EXPECT_EQ(options.iterations, 2'000'000u);
}

TEST(PerfOptions, MeasuresPowersOfTwoWithAll) {
  const Options options = Accepted("-a");
  EXPECT_EQ(options.sizes.size(), 23u);
  EXPECT_EQ(options.sizes.front(), 2u);
  EXPECT_EQ(options.sizes.back(), 8388608u);
}

TEST(PerfOptions, LimitsTheQueueToTheNumberOfMessages) {
  const Options options = Accepted("-n 5 -a");
  EXPECT_EQ(options.tx_depth, 5u);
  EXPECT_EQ(options.CqModFor(64), 5u);
}

TEST(PerfOptions, MeasuresForADurationInsteadOfIterations) {
  const Options options = Accepted("-D 10");
  EXPECT_EQ(options.iterations, 0u);
  EXPECT_EQ(options.duration_s, 10);
  EXPECT_EQ(options.margin_s, 2);
  EXPECT_EQ(Accepted("-D 1").margin_s, 0.25);
}

TEST(PerfOptions, AcceptsTheOptionsOfPerftest) {
  const Options options = Accepted(
      "-d mlx5_1 -i 2 -x 3 -m 1024 -s 4096 -n 77 -t 64 --cq-mod=7 -q 4 -l 8 -b -u 14 -p 4711 -R -F -N "
      "--report_gbits "
      "--out_json_file=a.json --use_cuda=2 --use_cuda_dmabuf --perform_warm_up --data_validation "
      "--retry_count=3 --tclass=106 -S 2 peer");
  EXPECT_EQ(options.nic_port, 2);
  EXPECT_EQ(options.mtu, 1024u);
  EXPECT_EQ(options.sizes, std::vector<uint64_t>{4096});
  EXPECT_EQ(options.iterations, 77u);
  EXPECT_EQ(options.tx_depth, 64u);
  EXPECT_EQ(options.CqModFor(4096), 7u);
  EXPECT_EQ(options.qps, 4u);
  EXPECT_EQ(options.posting.batch, 8u);
  EXPECT_EQ(options.ack_timeout, 14);
  EXPECT_EQ(options.retry_count, 3);
  EXPECT_EQ(options.tcp_port, 4711);
  EXPECT_EQ(options.selection.gid_index(), 3);
  EXPECT_EQ(options.selection.traffic_class(), 106);
  EXPECT_EQ(options.selection.service_level(), 2);
  EXPECT_EQ(options.json_file, "a.json");
  EXPECT_EQ(options.memory.kind, MemoryChoice::Kind::kCuda);
  EXPECT_EQ(options.memory.ordinal, 2);
  EXPECT_TRUE(options.memory.dma_buf);
  EXPECT_TRUE(options.bidirectional && options.rdma_cm && options.no_peak && options.gbits &&
              options.warm_up && options.data_validation);
  EXPECT_EQ(Accepted("--out_json").json_file, "perftest_out.json");
  EXPECT_EQ(Accepted("--use_hl=any").memory.kind, MemoryChoice::Kind::kGaudi);
  EXPECT_EQ(Accepted("--use_rocm=1 --use_rocm_dmabuf").memory.ordinal, 1);
}

TEST(PerfOptions, AcceptsReliableConnections) {
  for (const char* const line : {"-c RC peer", "-cRC peer", "--connection=RC peer"})
    EXPECT_EQ(Accepted(line).host, "peer");
}

TEST(PerfOptions, NamesAnUnsupportedOptionThatHasAValue) {
  for (const char* const line : {"-w 1.5", "-T 106 peer", "-W counters peer", "--limit_bw 2 peer"}) {
    const auto parsed = Parse(Words(line));
    const auto* const answer = std::get_if<programs::EarlyExit>(&parsed);
    ASSERT_NE(answer, nullptr) << line;
    EXPECT_THAT(answer->text, HasSubstr(Words(line).front() + " of perftest is not supported"));
  }
}

TEST(PerfOptions, AcceptsOptionsThatPerftestLacks) {
  const Options options = Accepted(
      "--test atomic -A CMP_AND_SWAP --initiator both --scope warp --sharing shared --posters 2 --batch 1 "
      "--placement "
      "host --min-bw 3.5");
  EXPECT_EQ(options.verb, Verb::kCompareSwap);
  EXPECT_EQ(options.initiators, (std::vector{InitiatorKind::kCpu, InitiatorKind::kGpu}));
  EXPECT_EQ(options.posting.scope, CallScope::kWarp);
  EXPECT_TRUE(options.posting.shared);
  EXPECT_EQ(options.posting.messages_per_round(), 64u);
  EXPECT_EQ(options.placement, host::Placement::kHost);
  EXPECT_EQ(options.min_bandwidth, 3.5);
}

TEST(PerfOptions, AcceptsFewOptionsInAnyOrder) {
  std::vector<std::vector<std::string>> parts{
      {"--use_cuda_dmabuf"}, {"--use_cuda=0"}, {"-s", "64"}, {"host"}, {"-b"}};
  std::sort(parts.begin(), parts.end());
  do {
    std::vector<std::string> words;
    for (const auto& part : parts) words.insert(words.end(), part.begin(), part.end());
    const auto parsed = Parse(words);
    const auto* const options = std::get_if<Options>(&parsed);
    ASSERT_NE(options, nullptr) << std::get<programs::EarlyExit>(parsed).text;
    EXPECT_TRUE(options->memory.dma_buf && options->bidirectional);
    EXPECT_EQ(options->host, "host");
  } while (std::next_permutation(parts.begin(), parts.end()));
}

TEST(PerfOptions, AcceptsManyOptionsInAnyOrder) {
  std::vector<std::vector<std::string>> parts{{"-d", "mlx5_1"},
                                              {"-i", "2"},
                                              {"-x", "3"},
                                              {"-m", "1024"},
                                              {"-s", "4096"},
                                              {"-n", "77"},
                                              {"-t", "64"},
                                              {"-Q", "7"},
                                              {"-q", "4"},
                                              {"-l", "8"},
                                              {"-b"},
                                              {"-u", "14"},
                                              {"-p", "4711"},
                                              {"-R"},
                                              {"-F"},
                                              {"--report_gbits"},
                                              {"--out_json"},
                                              {"peer"},
                                              {"--min-bw", "3"},
                                              {"--use_cuda_bus_id=41:00.0"},
                                              {"--use_cuda_dmabuf"},
                                              {"--data_validation"},
                                              {"--perform_warm_up"},
                                              {"--initiator", "both"},
                                              {"--scope", "thread"},
                                              {"--sharing", "exclusive"},
                                              {"--placement", "gpu"},
                                              {"--out_json_file", "a.json"}};
  std::mt19937 dice(3);
  for (int turn = 0; turn < 100; ++turn) {
    std::shuffle(parts.begin(), parts.end(), dice);
    std::vector<std::string> words;
    std::string line;
    for (const auto& part : parts) words.insert(words.end(), part.begin(), part.end());
    for (const std::string& word : words) line += word + " ";
    const Options options = Accepted(line);
    ASSERT_EQ(options.host, "peer") << line;
    ASSERT_TRUE(options.selection.Allows("mlx5_1", 2) && !options.selection.Allows("mlx5_0", 2)) << line;
    ASSERT_EQ(options.memory.pci_address, "41:00.0") << line;
    ASSERT_EQ(options.json_file, "a.json") << line;
    ASSERT_EQ(options.placement, host::Placement::kGpu) << line;
    ASSERT_EQ((std::vector<uint64_t>{options.nic_port, options.mtu, options.sizes.at(0), options.iterations,
                                     options.tx_depth, options.CqModFor(4096), options.qps,
                                     options.posting.batch, options.tcp_port, options.initiators.size()}),
              (std::vector<uint64_t>{2, 1024, 4096, 77, 64, 7, 4, 8, 4711, 2}))
        << line;
    ASSERT_TRUE(options.bidirectional && options.rdma_cm && options.gbits && options.memory.dma_buf &&
                options.data_validation && options.warm_up && options.min_bandwidth == 3 &&
                options.ack_timeout == 14 && options.selection.gid_index() == 3)
        << line;
  }
}

TEST(PerfOptions, ReadsTheFilesToPlot) {
  const Options options = Accepted("a.json --plot b.svg c.json");
  EXPECT_EQ(options.plot_file, "b.svg");
  EXPECT_EQ(options.plotted, (std::vector<std::string>{"a.json", "c.json"}));
}

struct Refused {
  const char* line;
  const char* because;

  friend void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.line; }
};

class PerfRefusal : public testing::TestWithParam<Refused> {};

TEST_P(PerfRefusal, PrintsOneSentenceWithStatus2) {
  std::vector<std::string> words = Words(GetParam().line);
  for (int turn = 0; turn < 2; ++turn) {
    const auto parsed = Parse(words);
    const auto* const answer = std::get_if<programs::EarlyExit>(&parsed);
    ASSERT_NE(answer, nullptr) << GetParam().line;
    EXPECT_EQ(answer->status, 2);
    EXPECT_THAT(answer->text, HasSubstr(GetParam().because));
    EXPECT_THAT(answer->text, MatchesRegex("warpverbs-perf: [^\n]+\\. See warpverbs-perf --help\\.\n"));
    // Options join their value by '=', so that any order of words is a command line.
    std::reverse(words.begin(), words.end());
  }
}

constexpr Refused kRefused[] = {
    {"--iters=5 --iters=6", "--iters is given more than once"},
    {"--test=read --test=send", "--test is given more than once"},
    {"--iters", "--iters needs a value"},
    {"--colour", "unknown option --colour"},
    {"--size=0",
     "--size: '0' is invalid: expected 1 to 1073741824 bytes; k, M and G mean 2^10, 2^20 and 2^30"},
    {"--iters=4", "--iters: '4' is invalid: expected 5 to 1073741824; k, M and G mean 10^3, 10^6 and 10^9"},
    {"--size=1q", "--size: '1q' is invalid"},
    {"--size=2G", "--size: '2G' is invalid"},
    {"--iters=many", "--iters: 'many' is invalid"},
    {"--mtu=1500", "--mtu: '1500' is invalid: expected 256, 512, 1024, 2048 or 4096"},
    {"--test=fly", "--test: 'fly' is invalid: expected write, read, send or atomic"},
    {"--port=70000", "--port: '70000' is invalid: expected an integer from 0 to 65535"},
    {"host other", "after HOST"},
    {"--port=0 host", "the server's port"},
    {"-a --size=8", "use one of them"},
    {"--test=atomic --size=16", "-s does not apply to atomics"},
    {"--test=atomic -a", "-a does not apply to atomics"},
    {"--atomic_type=CMP_AND_SWAP", "-A needs --test atomic"},
    {"--duration=3 --iters=100", "use one of them"},
    {"--margin=1", "-f needs -D"},
    {"--duration=nan", "'nan' is invalid: expected a number of seconds from 0.1 to 86400"},
    {"--duration=9 --margin=nan", "'nan' is invalid"},
    {"--min-bw=x", "--min-bw: 'x' is invalid: expected a bandwidth of at least 0, in the unit of the report"},
    {"--min-bw=-1", "--min-bw: '-1' is invalid"},
    {"--min-bw=nan", "'nan' is invalid"},
    {"--measure=latency --max-p99=-nan", "expected a time of at least 0 microseconds"},
    {"--duration=2 --margin=1", "do not fit into the time of -D"},
    {"--duration=2 --data_validation", "needs -n"},
    {"--inline_size=8", "-I applies only to latencies of writes"},
    {"--measure=latency --inline_size=93",
     "--inline_size: '93' is invalid: expected an integer from 0 to 92"},
    {"--measure=latency -b", "-b does not apply"},
    {"--measure=latency --qp=2", "-q does not apply"},
    {"--measure=latency --tx-depth=8", "-t, -r and -Q do not apply"},
    {"--measure=latency --batch=2", "--batch"},
    {"--measure=latency --scope=warp", "a single thread posts"},
    {"--measure=latency --report_gbits", "microseconds"},
    {"--measure=latency --min-bw=1", "--min-bw"},
    {"--measure=latency --data_validation", "last byte"},
    {"--measure=latency --use_cuda=0", "cannot poll device memory"},
    {"--max-p99=3", "--max-p99 needs --measure latency"},
    {"--scope=block", "sharing shared"},
    {"--posters=2", "sharing shared"},
    {"--scope=warp --batch=8", "256 messages at a time"},
    {"--batch=200", "more than the 128 of -t"},
    {"--cq-mod=100 --tx-depth=64", "more than the 64 of -t"},
    {"--placement=gpu", "--placement needs --initiator gpu"},
    {"--use_cuda_dmabuf", "needs --use_cuda"},
    {"--use_cuda_pcie_mapping", "--use_cuda_pcie_mapping needs --use_cuda"},
    {"--use_rocm_dmabuf", "needs --use_rocm"},
    {"--cuda_mem_type=0", "needs --use_cuda"},
    {"--use_cuda=0 --cuda_mem_type=1", "on-demand paging"},
    {"--use_cuda=0 --use_rocm=0", "one kind of memory"},
    {"--use_cuda=0 --use_cuda_bus_id=41:00.0", "use one of them"},
    {"--initiator=gpu --use_rocm=0", "NVIDIA GPU"},
    {"--initiator=gpu --use_cuda=0 --placement=host", "use one of them"},
    {"--test=send --data_validation --sharing=shared --posters=2", "their order is unknown"},
    {"--odp", "--odp of perftest is not supported"},
    {"--use_cuda=0 --use_data_direct", "--use_data_direct of perftest is not supported"},
    {"--gpu_touch=once", "--initiator gpu"},
    {"--run_infinitely", "use -D"},
    {"--connection=UD", "'UD' is invalid: expected RC"},
    {"--connection=rc", "'rc' is invalid: expected RC"},
    {"-w1.5", "-w of perftest is not supported: use --min-bw"},
    {"--limit_bw=1.5", "use --min-bw"},
    {"-y0.5", "-y of perftest is not supported: use --min-bw"},
    {"--limit_msgrate=0.5", "use --min-bw"},
    {"-Wport_xmit_data", "-W of perftest is not supported"},
    {"--report-counters=port_xmit_data", "--report-counters of perftest is not supported"},
    {"-T106", "-T of perftest is not supported: the type of service is the traffic class"},
    {"--tos=106", "use --tclass"},
    {"-U", "-U of perftest is not supported"},
    {"--report-unsorted", "percentiles"},
    {"-H", "-H of perftest is not supported"},
    {"--report-histogram", "percentiles"},
    {"-C", "microseconds"},
    {"--report-cycles", "microseconds"},
    {"--report-both -b", "the sum of both directions"},
    {"--ipv6", "-x selects the GID"},
    {"--ipv6-addr", "-x selects the GID"},
    {"--cpu_util", "--cpu_util of perftest is not supported"},
    {"--rate_limit=5", "as fast as possible"},
    {"--rate_units=g", "as fast as possible"},
    {"--rate_limit_type=SW", "as fast as possible"},
    {"--burst_size=9", "as fast as possible"},
    {"--output=bandwidth", "use --out_json_file"},
    {"-g", "have no multicast"},
    {"--mcg=1", "have no multicast"},
    {"--MGID=ff::1", "have no multicast"},
    {"-o4", "-o of perftest is not supported"},
    {"--outs=4", "--outs of perftest is not supported"},
    {"--plot=a.svg", "needs the JSON files"},
    {"--plot=a.gif a.json", ".svg or .png"},
    {"--plot=a.svg a.json --size=8", "--plot does not measure: leave out --size"},
    {"--plot=a.svg a.json -b", "leave out --bidirectional"},
    {"--rx-depth=64", "-r needs --test send"},
    {"--measure=latency --test=send --rx-depth=64", "-t, -r and -Q do not apply"},
    {"--use-srq", "--use-srq of perftest is not supported"},
    {"--reversed", "start the server on the other machine"},
    {"--force-link=IB", "the port determines the link layer"},
    {"--vector=1", "completions are polled"},
    {"--mmap=/dev/null", "use --use_cuda"},
    {"--latency_gap=5", "--latency_gap of perftest is not supported"},
    {"--measure=latency -N", "-N does not apply"},
    {"--measure=latency --perform_warm_up", "--perform_warm_up does not apply"},
    {"--measure=latency --cq-mod=8", "-t, -r and -Q do not apply"},
};
INSTANTIATE_TEST_SUITE_P(, PerfRefusal, testing::ValuesIn(kRefused));

TEST(PerfOptions, NamesUnitsAndExitStatusInHelp) {
  const auto parsed = Parse({"--help"});
  const auto& answer = std::get<programs::EarlyExit>(parsed);
  EXPECT_EQ(answer.status, 0);
  for (const char* const part :
       {"--use_cuda", "--initiator", "1 MiB is 2^20 bytes", "Exit status:", "NCCL_IB_HCA"})
    EXPECT_THAT(answer.text, HasSubstr(part));
}

TEST(PerfOptions, SignalsOftenEnoughForABatch) {
  const Options options = Accepted("-l 64 -s 8");
  EXPECT_EQ(options.CqModFor(8), 65u);
  EXPECT_EQ(Accepted("-l 128 -Q 100").CqModFor(8), 1u);
}

TEST(PerfOptions, RoundsTheQueueOfGroupsDown) {
  const Options options = Accepted("--sharing shared --posters 3 -t 100");
  EXPECT_EQ(options.Depth(), 64u);
  EXPECT_LE(options.CqModFor(64) * options.posting.posters, options.Depth());
  EXPECT_EQ(Accepted("-t 100").Depth(), 128u);  // a single thread counts its messages
}

}  // namespace
}  // namespace warpverbs::perf
