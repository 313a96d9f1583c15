#include <gmock/gmock.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "pair.hpp"
#include "perftest_rows.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

/// warpverbs-perf as users run it: two processes, each on a software HCA of its own.
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string TemporaryFile(const std::string& name) {
  return testing::TempDir() + "perf" + std::to_string(getpid()) + name;
}

std::string ReadFile(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

nlohmann::json ReadJson(const std::string& file) { return nlohmann::json::parse(ReadFile(file)); }

/// Both sides ended well and printed the same table.
void ExpectSuccess(const PerfPair& pair, size_t rows) {
  EXPECT_EQ(pair.client_status, 0) << pair.client;
  EXPECT_EQ(pair.server_status, 0) << pair.server;
  const std::string table = TableOf(pair.client);
  EXPECT_EQ(table, TableOf(pair.server));
  EXPECT_EQ(PerftestRows(table), rows) << table;
}

class PerfMeasures : public testing::TestWithParam<const char*> {};

TEST_P(PerfMeasures, AndBothSidesPrintTheSameRow) { ExpectSuccess(RunPerf(GetParam()), 1); }

constexpr const char* kMeasures[] = {
    "-n 200",
    "-n 200 -q 3 --data_validation",
    "-n 200 -l 16 -s 500 --data_validation",
    "-n 200 -b --data_validation",
    "-n 200 --test read -q 2 --data_validation",
    "-n 200 --test send -q 2 -s 5000 --data_validation",
    "-n 200 --test send -b --data_validation",
    "-n 200 --test atomic -q 2 --data_validation",
    "-n 200 --test atomic -A CMP_AND_SWAP --data_validation",
    "-n 200 --measure rate",
    "-n 200 --scope warp -s 64 --data_validation",
    "-n 200 --scope warp --sharing shared --posters 2 -q 2 -s 64 --data_validation",
    "-n 200 --scope block --sharing shared -t 256 -s 64 --data_validation",
    "-n 200 --sharing shared --posters 3 --batch 4 -s 64 --data_validation",
    "-n 70 -s 1048576 --data_validation",  // more than there are places: in two rounds
    "-n 30000 -s 64 -N",
    "-D 0.3",
    "-n 100 --measure latency",
    "-n 100 --measure latency -s 1000",
    "-n 100 --measure latency -I 0 -s 8",
    "-n 100 --measure latency --test send",
    "-n 100 --measure latency --test read",
    "-n 100 --measure latency --test atomic",
    "-D 0.3 --measure latency",
    "-n 200 --report_gbits -m 1024",
    "-n 200 -R -q 2",
};
INSTANTIATE_TEST_SUITE_P(, PerfMeasures, testing::ValuesIn(kMeasures));

TEST(Perf, MeasuresEverySizeThatPerftestDoes) {
  ExpectSuccess(RunPerf("-a -n 5"), 23);
  ExpectSuccess(RunPerf("-a -n 5 --measure latency"), 23);
}

TEST(Perf, ValidatesEverySizeInTurn) {
  ExpectSuccess(RunPerf("-a -n 7 --test send --perform_warm_up --data_validation"), 23);
}

/// Over a driver that stands in for NVIDIA's, with two GPUs.
PerfPair RunWithGpus(const std::string& options) {
  return RunPerfPair(options, options, "", "",
                     "LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER " WARPVERBS_FAKE_CUDA=gpus=2");
}

TEST(Perf, MovesMemoryOfAGpu) {
  const PerfPair pair = RunWithGpus("-n 50 --use_cuda=1 --use_cuda_dmabuf --data_validation");
  ExpectSuccess(pair, 1);
  EXPECT_THAT(pair.client, HasSubstr("messages: memory of cuda:1; registration: GPU memory by dma-buf"));
  ExpectSuccess(RunWithGpus("-n 50 --use_cuda_bus_id=42:00.0 --test send --data_validation"), 1);
}

TEST(Perf, SaysThatThereIsNoSuchGpu) {
  for (const char* const options :
       {"--use_cuda=7", "--use_cuda_bus_id=99:00.0", "--use_rocm=0", "--use_hl=any"}) {
    const PerfPair pair = RunWithGpus(std::string("-n 10 ") + options);
    EXPECT_EQ(pair.client_status, 1) << options;
    EXPECT_EQ(pair.server_status, 1) << options;
    EXPECT_THAT(pair.client, testing::ContainsRegex("warpverbs-perf: Cannot [^\n]+: [^\n]+\\. [^\n]+\\.\n"))
        << options;
  }
}

TEST(Perf, SidesMayPostInDifferentWays) {
  const std::string options = "-n 20 -s 64 --data_validation";
  ExpectSuccess(RunPerfPair(options, options + " --scope warp"), 1);
  ExpectSuccess(RunPerfPair(options + " --scope warp", options), 1);
  for (const char* const of_server : {" -t 8", " -t 20"}) {
    const std::string warm = options + " --test send --perform_warm_up --timeout 10";
    ExpectSuccess(RunPerfPair(warm + of_server, warm + " -t 16"), 1);
  }
  ExpectSuccess(RunPerfPair(options + " --test send", options + " --test send -l 8 -t 16"), 1);
}

TEST(Perf, WritesJsonWhoseFiguresAgree) {
  const std::string file = TemporaryFile("figures.json");
  const PerfPair pair = RunPerfPair("-n 500 -q 2", "-n 500 -q 2 --out_json_file=" + file);
  ExpectSuccess(pair, 1);
  const nlohmann::json report = ReadJson(file), results = report.at("results");
  EXPECT_EQ(results.at("MsgSize"), 65536);
  EXPECT_EQ(results.at("n_iterations"), 1000);
  const double average = results.at("BW_average"), peak = results.at("BW_peak");
  // All bytes passed while the client ran, and a run of messages is no slower than the best one.
  EXPECT_LE(1000 * 65536 / (average * 1048576), pair.client_seconds);
  EXPECT_GE(peak, average * (1 - 1e-9));
  char printed[32];
  std::snprintf(printed, sizeof printed, " %.2f", average);
  EXPECT_THAT(TableOf(pair.server), HasSubstr(printed));
  EXPECT_TRUE(report.at("test_info").at("software_hca"));
  EXPECT_THAT(
      report.at("test_info").at("paths").at(0).get<std::string>(),
      AllOf(HasSubstr("host memory"), HasSubstr("doorbell"), HasSubstr("GID 3"), HasSubstr("MTU 4096")));
  std::filesystem::remove(file);
}

TEST(Perf, MeasuresForTheTimeOfADurationButItsMargins) {
  const std::string file = TemporaryFile("duration.json");
  for (const char* const options : {"-D 1.5 -f 0", "-D 2 -f 0.5"}) {
    const PerfPair pair = RunPerfPair(options, options + std::string(" --out_json_file=") + file);
    ExpectSuccess(pair, 1);
    const nlohmann::json results = ReadJson(file).at("results");
    const double messages = results.at("n_iterations"), average = results.at("BW_average");
    const double seconds = messages * 65536 / (average * 1048576);
    EXPECT_GE(seconds, 0.02) << options;  // however long a busy machine dwells between the rounds
    EXPECT_LE(seconds, pair.client_seconds) << options;
  }
  std::filesystem::remove(file);
}

TEST(Perf, SaysWhichPathItTookAndThatItIsNoNetwork) {
  const PerfPair pair = RunPerf("-n 10");
  EXPECT_THAT(pair.client,
              AllOf(HasSubstr("not of a network"), HasSubstr(" messages: host memory"),
                    HasSubstr("doorbell: "), HasSubstr("GID 3"), HasSubstr("Device         : mlx5_0")));
}

TEST(Perf, TakesTheStepsOfASetUpInTheirOrder) {
  const PerfPair pair = RunPerf("-n 10 --verbose");
  ExpectSuccess(pair, 1);
  for (const std::string* const output : {&pair.client, &pair.server}) {
    std::vector<std::string> steps;
    std::istringstream lines(*output);
    const std::string program = "warpverbs-perf: ";
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(program) && line.find("listening") == std::string::npos)
        steps.push_back(line.substr(program.size()));
    EXPECT_THAT(steps,
                testing::ElementsAre(
                    "parse the command line", "find a device", "open it", "check what it can do",
                    "check its link", "meet the other side", "exchange versions", "exchange options",
                    "exchange page and cache line sizes", "check the MTU", "allocate and register memory",
                    "create queues", "exchange LIDs, GIDs, QPNs, PSNs, rkeys and addresses",
                    "connect the queues, from INIT to RTS", "wait until both sides are ready",
                    "run, and exchange the figures of each row", "wait until both sides have all rows"));
  }
}

class PerfTellsItsAddresses : public testing::TestWithParam<const char*> {};

TEST_P(PerfTellsItsAddresses, AsTheOtherSidePrintsThem) {
  const PerfPair pair = RunPerf(GetParam());
  ExpectSuccess(pair, 1);
  const auto addresses = [](const std::string& output, const std::string& whose) {
    const std::regex address(" " + whose + " address: (LID .* QPN .* PSN .* RKey .* VAddr .*\n GID: .*\n)");
    std::string all;
    for (std::sregex_iterator found(output.begin(), output.end(), address); found != std::sregex_iterator();
         ++found)
      all += (*found)[1];
    return all;
  };
  EXPECT_THAT(addresses(pair.client, "local"), HasSubstr("QPN 0x"));
  EXPECT_EQ(addresses(pair.client, "local"), addresses(pair.server, "remote"));
  EXPECT_EQ(addresses(pair.server, "local"), addresses(pair.client, "remote"));
}

INSTANTIATE_TEST_SUITE_P(, PerfTellsItsAddresses, testing::Values("-n 10 -q 2", "-n 10 -q 2 -R"));

/// What the software HCA of the client has counted of each queue pair.
nlohmann::json CountersOf(const std::string& options) {
  const std::string file = TemporaryFile("stats.json");
  ExpectSuccess(RunPerfPair(options, options, "", "--stats=" + file), 1);
  const nlohmann::json stats = ReadJson(file);
  std::filesystem::remove(file);
  return stats.at("qps");
}

uint64_t RequestsOf(const std::string& options) {
  uint64_t requests = 0;
  for (const nlohmann::json& qp : CountersOf(options)) requests += qp.at("requests").get<uint64_t>();
  return requests;
}

TEST(Perf, WarmsUpByAsManyMessagesAsTheQueueHolds) {
  EXPECT_EQ(RequestsOf("-n 300 -t 32 -q 2"), 600u);
  EXPECT_EQ(RequestsOf("-n 300 -t 32 -q 2 --perform_warm_up"), 600u + 2 * 32u);
}

TEST(Perf, AsksForACompletionEveryCqModAndOfTheLastAndKeepsToTheDepth) {
  struct Case {
    const char* options;
    uint64_t completions, least_open, most_open;  // of each queue pair
  };
  for (const auto& [options, completions, least_open, most_open] :
       {Case{"-n 300 -t 32 -Q 8 -s 64", 38, 8, 32}, Case{"-n 300 -t 32 -Q 32 -s 64 -q 2", 10, 32, 32},
        Case{"-n 300 -t 16 -Q 1 -s 64 -l 4", 300, 4, 16},
        Case{"-n 300 -t 48 -Q 16 --test read", 19, 16, 48}}) {
    const nlohmann::json qps = CountersOf(options);
    ASSERT_FALSE(qps.empty()) << options;
    for (const nlohmann::json& qp : qps) {
      EXPECT_EQ(qp.at("requests"), 300) << options;
      EXPECT_EQ(qp.at("completions"), completions) << options;
      EXPECT_GE(qp.at("most_open"), least_open) << options;
      EXPECT_LE(qp.at("most_open"), most_open) << options;
    }
  }
}

/// A bit that a fault flips on its way.
struct FlippedBit {
  const char* options;
  uint64_t bytes;     // of a message
  const char* fault;  // at the side that sends the data

  friend void PrintTo(const FlippedBit& bit, std::ostream* out) { *out << bit.options << " " << bit.fault; }
};

class PerfFindsAFlippedBit : public testing::TestWithParam<FlippedBit> {};

/// The QP numbers of the addresses that a side printed as its own.
std::vector<uint64_t> OwnQpns(const std::string& output) {
  const std::regex address(" local address: LID [0-9a-fx]+ QPN 0x([0-9a-f]+) ");
  std::vector<uint64_t> qpns;
  for (std::sregex_iterator found(output.begin(), output.end(), address); found != std::sregex_iterator();
       ++found)
    qpns.push_back(std::stoull((*found)[1], nullptr, 16));
  return qpns;
}

TEST_P(PerfFindsAFlippedBit, AndSaysWhereOnBothSides) {
  const auto& [options, bytes, fault] = GetParam();
  const std::string line = "-n 100 --data_validation -s " + std::to_string(bytes) + " " + options;
  const bool reads = line.find("read") != std::string::npos;  // the server sends the data
  const std::string rule = std::string("--fault flip,") + fault;
  const PerfPair pair = RunPerfPair(line, line, reads ? rule : "", reads ? "" : rule);
  EXPECT_EQ(pair.client_status, 1) << pair.client;
  EXPECT_EQ(pair.server_status, 1) << pair.server;
  const std::regex sentence(
      "Data arrived changed: QP 0x([0-9a-f]+), chunk ([0-9]+), offset ([0-9]+), expected 0x([0-9a-f]{2}), "
      "actual 0x([0-9a-f]{2})\\.");  // and no "; N bytes in all"
  const std::string &finder = reads ? pair.client : pair.server, &sender = reads ? pair.server : pair.client;
  std::smatch found, told;
  ASSERT_TRUE(std::regex_search(finder, found, sentence)) << finder;
  ASSERT_TRUE(std::regex_search(sender, told, sentence)) << sender;
  EXPECT_EQ(found.str(), told.str());
  EXPECT_THAT(OwnQpns(finder), testing::Contains(std::stoull(found[1], nullptr, 16))) << finder;
  EXPECT_LT(std::stoull(found[2]), 100u);
  EXPECT_LT(std::stoull(found[3]), bytes);
  EXPECT_EQ(std::popcount(std::stoull(found[4], nullptr, 16) ^ std::stoull(found[5], nullptr, 16)), 1)
      << found.str();
}

// No atomic: it carries no payload, and is validated by the counts that are left at the end.
INSTANTIATE_TEST_SUITE_P(, PerfFindsAFlippedBit,
                         testing::Values(FlippedBit{"", 65536, "op=WRITE_MIDDLE,nth=300"},
                                         FlippedBit{"-q 2", 8, "op=WRITE_ONLY,nth=150"},
                                         FlippedBit{"-b", 8, "op=WRITE_ONLY,nth=50"},
                                         FlippedBit{"-b -q 2 --test send", 3000, "op=SEND_ONLY,nth=50"},
                                         FlippedBit{"--test send", 65536, "op=SEND_LAST,nth=7"},
                                         FlippedBit{"--test read", 3000, "op=READ_RESP_ONLY,nth=60"}));

TEST(Perf, LostAndCorruptedFramesChangeNoByte) {
  const std::string options = "-n 100 -q 2 --data_validation";
  ExpectSuccess(RunPerfPair(options, options, "--fault drop:1%", "--fault drop:1% --fault corrupt:1%"), 1);
}

TEST(Perf, SidesThatDoNotAgreeSayOnWhat) {
  const PerfPair pair = RunPerfPair("-s 4096", "-s 1024");
  EXPECT_EQ(pair.client_status, 1);
  EXPECT_EQ(pair.server_status, 1);
  EXPECT_THAT(pair.client, HasSubstr("do not agree on -s: 1024 here, 4096 there. Give both the same."));
  EXPECT_THAT(pair.server, HasSubstr("do not agree on -s: 4096 here, 1024 there. Give both the same."));
}

TEST(Perf, ExitsWith1WhereAThresholdIsMissed) {
  const PerfPair slow = RunPerfPair("-n 50", "-n 50 --min-bw 1e9");
  EXPECT_EQ(slow.client_status, 1);
  EXPECT_EQ(slow.server_status, 0);
  EXPECT_THAT(slow.client, HasSubstr("less than the 1e+09 of --min-bw"));
  EXPECT_EQ(RunPerfPair("-n 50", "-n 50 --min-bw 0.001").client_status, 0);
  const PerfPair all = RunPerfPair("-a -n 5", "-a -n 5 --min-bw 1e9");  // every row is judged
  EXPECT_EQ(all.client_status, 1);
  for (const char* const size : {" 2 bytes", " 8388608 bytes"})
    EXPECT_THAT(all.client, HasSubstr("The average bandwidth of" + std::string(size)));
  EXPECT_EQ(RunPerfPair("-a -n 5", "-a -n 5 --min-bw 1e-6").client_status, 0);
  const PerfPair late = RunPerfPair("--measure latency -n 50", "--measure latency -n 50 --max-p99 0.001");
  EXPECT_EQ(late.client_status, 1);
  EXPECT_THAT(late.client, HasSubstr("of --max-p99"));
}

TEST(Perf, ServerLearnsThatItsClientDied) {
  const PerfPair pair = RunPerfPair("-D 60 --timeout 20", "-D 60 --timeout 20", "", "--fault kill,after=2s");
  EXPECT_NE(pair.client_status, 0);
  EXPECT_EQ(pair.server_status, 1);
  EXPECT_THAT(pair.server, HasSubstr("warpverbs-perf: "));
}

TEST(Perf, ClientOfADeadServerEndsByItsDeadline) {
  const PerfPair pair =
      RunPerfPair("-D 60 --measure latency", "-D 60 --measure latency --timeout 5", "--fault kill,after=2s");
  EXPECT_EQ(pair.client_status, 1) << pair.client;
}

TEST(Perf, SaysThatNobodyListens) {
  const Result outcome = RunShell(SOFTHCA " -- " PERF " --timeout 1 -p 1 127.0.0.1");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("warpverbs-perf: Cannot "));
}

TEST(Perf, TriesTheReportsFileBeforeItMeetsAnybody) {
  // Nobody listens at that port: a program that met first would say so.
  for (const auto& [file, why] : {std::pair<std::string, const char*>{"/no/such/x.json", "No such file"},
                                  {testing::TempDir(), "Is a directory"}}) {
    const Result outcome =
        RunShell(SOFTHCA " -- " PERF " --timeout 1 -p 1 --out_json_file=" + file + " 127.0.0.1");
    EXPECT_EQ(outcome.exit_status, 1);
    EXPECT_THAT(outcome.output, HasSubstr("warpverbs-perf: Cannot write " + file + ": " + why));
  }
}

TEST(Perf, LeavesAReportsFileAsItIsWhereNothingIsMeasured) {
  const std::string file = TemporaryFile("kept.json");
  std::ofstream(file) << "kept";
  RunShell(SOFTHCA " -- " PERF " --timeout 1 -p 1 --out_json_file=" + file + " 127.0.0.1");
  EXPECT_EQ(ReadFile(file), "kept");
  std::filesystem::remove(file);
}

TEST(Perf, SaysThatAStrangerIsOne) {
  using namespace warpverbs::host;
  const TcpListener listener;
  const std::jthread stranger([&] {
    try {
      TcpExchange exchange = listener.Accept(DeadlineIn(std::chrono::seconds(60)));
      const uint8_t words[] = {'h', 'e', 'l', 'l', 'o'};
      exchange.Swap(words, "a greeting", DeadlineIn(std::chrono::seconds(60)));
    } catch (const std::exception&) {  // the client may leave at once
    }
  });
  const Result outcome =
      RunShell(SOFTHCA " -- " PERF " -p " + std::to_string(listener.port()) + " 127.0.0.1");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("is no warpverbs-perf of this version"));
}

TEST(Perf, SaysThatThereIsNoDeviceNorSuchAPort) {
  EXPECT_THAT(RunShell(SOFTHCA " -- " PERF " -d mlx5_7").output,
              HasSubstr("there is no ConnectX of that name"));
  const Result down = RunShell(SOFTHCA " --port-down all -- " PERF);
  EXPECT_EQ(down.exit_status, 1);
  EXPECT_THAT(down.output, HasSubstr("warpverbs-perf: Cannot "));
}

TEST(Perf, RefusesAtomicsOfADeviceWithoutThem) {
  const Result outcome = RunShell(SOFTHCA " --no-atomics -- " PERF " --test atomic");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("the device has none"));
}

TEST(Perf, RefusesAnMtuThatThePortsDoNotHave) {
  const PerfPair pair = RunPerfPair("-n 10", "-n 10 -m 4096", "--mtu 1024");
  EXPECT_EQ(pair.client_status, 1);
  EXPECT_THAT(pair.client, HasSubstr("-m asks for an MTU of 4096, and the ports have 1024"));
}

TEST(Perf, ShowsItsProgressOnATerminalAndTakesItAway) {
  const PerfPair pair = RunPerfPair("-D 2.5", "-D 2.5", "", "", "", Output::kTerminal);
  EXPECT_EQ(pair.client_status, 0) << pair.client;
  EXPECT_THAT(pair.client, HasSubstr("\r measuring 65536 bytes, cpu: 0 of 2.5 s"));
  EXPECT_THAT(pair.client, testing::ContainsRegex("\r measuring 65536 bytes, cpu: [1-9][0-9]* of 2\\.5 s"));
  EXPECT_THAT(pair.client, HasSubstr("\r\033[K 65536 "));  // the row stands where it was
}

TEST(Perf, ShowsProgressOfManyMessagesOnATerminal) {
  const PerfPair pair = RunPerfPair("-n 200", "-n 200", "", "", "", Output::kTerminal);
  EXPECT_EQ(pair.client_status, 0) << pair.client;
  EXPECT_THAT(pair.client, HasSubstr("\r measuring 65536 bytes, cpu: 0 s"));
}

TEST(Perf, ShowsNoProgressInAFile) { EXPECT_THAT(RunPerf("-n 10").client, Not(HasSubstr("measuring"))); }

size_t CountOf(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

uint32_t BigEndianAt(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(at, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

/// Both axes with units, and three curves with a point for each of so many sizes.
void ExpectBothPanels(const std::string& svg, const std::string& bandwidth, const std::string& latency,
                      size_t sizes) {
  for (const char* const title : {"average bandwidth [MiB/sec]", "latency [usec]"})
    EXPECT_THAT(svg, HasSubstr(std::string(">") + title + "</tspan>"));
  EXPECT_EQ(CountOf(svg, ">message size \\[bytes\\]</tspan>"), 2u);  // below each
  EXPECT_THAT(svg, HasSubstr("figures of processors, not of a network"));
  for (const std::string& curve :
       {bandwidth + ": write, cpu", latency + ": write, cpu, median", latency + ": write, cpu, 99 %"}) {
    EXPECT_THAT(svg, HasSubstr("<title>" + curve + "</title>"));
    EXPECT_THAT(svg, HasSubstr("<text>" + curve + "</text>"));  // of the legend
  }
  EXPECT_EQ(CountOf(svg, "id=\"gnuplot_plot_"), 3u);
  EXPECT_EQ(CountOf(svg, "xlink:href='#gpPt[0-9]+' transform='translate"), 3 * (sizes + 1));  // and its key
}

TEST(Perf, DrawsItsReports) {
  if (RunShell("command -v gnuplot").exit_status != 0) GTEST_SKIP() << "there is no gnuplot";
  const std::string bandwidth = TemporaryFile("bw.json"), latency = TemporaryFile("lat.json");
  ExpectSuccess(RunPerfPair("-a -n 5", "-a -n 5 --out_json_file=" + bandwidth), 23);
  ExpectSuccess(
      RunPerfPair("-a -n 5 --measure latency", "-a -n 5 --measure latency --out_json_file=" + latency), 23);
  const auto draw = [&](const std::string& end) {
    const std::string picture = TemporaryFile("picture" + end);
    const Result outcome = RunShell(PERF " --plot " + picture + " " + bandwidth + " " + latency);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
    const std::string content = ReadFile(picture);
    std::filesystem::remove(picture);
    return content;
  };
  ExpectBothPanels(draw(".svg"), std::filesystem::path(bandwidth).stem(),
                   std::filesystem::path(latency).stem(), 23);
  const std::string png = draw(".png");
  EXPECT_EQ(png.substr(0, 16), std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
  EXPECT_EQ(BigEndianAt(png, 16), 900u);
  EXPECT_EQ(BigEndianAt(png, 20), 2 * 480u);
  for (const std::string& file : {bandwidth, latency}) std::filesystem::remove(file);
}

TEST(Perf, SaysWhyItDrawsNothing) {
  EXPECT_THAT(RunShell(PERF " --plot a.svg /no/such/file").output,
              HasSubstr("Cannot read /no/such/file: No such file"));
  EXPECT_THAT(RunShell(PERF " --plot a.svg /dev/null").output,
              HasSubstr("/dev/null is no report of warpverbs-perf"));
}

TEST(Perf, ShowsNoPictureOnTheTerminalWhereItsFileCannotBeWritten) {
  if (RunShell("command -v gnuplot").exit_status != 0) GTEST_SKIP() << "there is no gnuplot";
  const std::string report = TemporaryFile("report.json");
  ExpectSuccess(RunPerfPair("-n 5", "-n 5 --out_json_file=" + report), 1);
  const Result outcome = RunShell(PERF " --plot /no/such/folder/a.svg " + report);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Cannot draw /no/such/folder/a.svg"), Not(HasSubstr("<svg"))));
  std::filesystem::remove(report);
}

TEST(Perf, SaysThatGnuplotDiedBeforeItReadTheScript) {
  const std::string file = TemporaryFile("many.json"), folder = TemporaryFile("path");
  ExpectSuccess(RunPerfPair("-n 5", "-n 5 --out_json_file=" + file), 1);
  nlohmann::json report = ReadJson(file);
  const nlohmann::json row = report.at("rows").front();
  for (int i = 0; i < 20000; ++i) report["rows"].push_back(row);  // a script that no pipe holds
  std::ofstream(file) << report;
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/gnuplot") << "#!/bin/sh\nexit 0\n";
  std::filesystem::permissions(folder + "/gnuplot", std::filesystem::perms::owner_all);
  const Result outcome = RunShell("PATH=" + folder + ":$PATH " PERF " --plot a.svg " + file);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("Cannot draw a.svg: gnuplot failed"));
  std::filesystem::remove_all(folder);
  std::filesystem::remove(file);
}

TEST(Perf, SaysThatItHasNoKernels) {
  const PerfPair pair = RunPerfPair("-n 10", "-n 10 --initiator gpu");
  EXPECT_EQ(pair.client_status, 1);
  EXPECT_THAT(pair.client, testing::ContainsRegex("Cannot (post from a GPU|load|use)[^\n]+\\.\n"));
  EXPECT_THAT(pair.server, HasSubstr("The other side failed: Cannot "));
}

}  // namespace
