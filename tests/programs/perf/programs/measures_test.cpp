#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runs.hpp"

/// Measurements of two sides, with every way to post.
namespace {

using testing::HasSubstr;

class PerfMeasures : public testing::TestWithParam<const char*> {};

TEST_P(PerfMeasures, PrintsTheSameRowOnBothSides) { ExpectSuccess(RunPerf(GetParam()), 1); }

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
    "-n 70 -s 1048576 --data_validation",  // more messages than slots: two rounds
    "-n 30000 -s 64 -N",
    "-D 0.3",
    "-n 100 --measure latency",
    "-n 100 --measure latency -s 1000",
    "-n 100 --measure latency -I 0 -s 8",
    "-n 300 --measure latency -I 92 -s 3",
    "-n 300 --measure latency -I 92 -s 29",  // two WQEBBs
    "-n 300 --measure latency -I 92 -s 92",
    "-n 100 --measure latency -I 92 -s 93",  // not inlined
    "-n 100 --measure latency --test send",
    "-n 100 --measure latency --test read",
    "-n 100 --measure latency --test atomic",
    "-D 0.3 --measure latency",
    "-n 200 --report_gbits -m 1024",
    "-n 200 -R -q 2",
};
INSTANTIATE_TEST_SUITE_P(, PerfMeasures, testing::ValuesIn(kMeasures));

TEST(Perf, MeasuresAllSizesOfPerftest) {
  ExpectSuccess(RunPerf("-a -n 5"), 23);
  ExpectSuccess(RunPerf("-a -n 5 --measure latency"), 23);
}

TEST(Perf, TransfersGpuMemory) {
  const PerfPair pair = RunWithGpus("-n 50 --use_cuda=1 --use_cuda_dmabuf --data_validation");
  ExpectSuccess(pair, 1);
  EXPECT_THAT(pair.client, HasSubstr("messages: memory of cuda:1; registration: GPU memory by dma-buf"));
  ExpectSuccess(RunWithGpus("-n 50 --use_cuda_bus_id=42:00.0 --test send --data_validation"), 1);
  for (const char* const by_dma_buf : {"", " --use_cuda_dmabuf"}) {
    const PerfPair over_pcie =
        RunWithGpus(std::string("-n 50 --use_cuda=1 --use_cuda_pcie_mapping --data_validation") + by_dma_buf);
    ExpectSuccess(over_pcie, 1);
    EXPECT_THAT(over_pcie.client, HasSubstr("registration: GPU memory by dma-buf"));
  }
}

TEST(Perf, LetsSidesPostInDifferentWays) {
  const std::string options = "-n 20 -s 64 --data_validation";
  ExpectSuccess(RunPerfPair(options, options + " --scope warp"), 1);
  ExpectSuccess(RunPerfPair(options + " --scope warp", options), 1);
  for (const char* const of_server : {" -t 8", " -t 20"}) {
    const std::string warm = options + " --test send --perform_warm_up --timeout 10";
    ExpectSuccess(RunPerfPair(warm + of_server, warm + " -t 16"), 1);
  }
  ExpectSuccess(RunPerfPair(options + " --test send", options + " --test send -l 8 -t 16"), 1);
}

TEST(Perf, MeasuresForADurationWithoutItsMargins) {
  const std::string file = TemporaryFile("duration.json");
  for (const char* const options : {"-D 1.5 -f 0", "-D 2 -f 0.5"}) {
    const PerfPair pair = RunPerfPair(options, options + std::string(" --out_json_file=") + file);
    ExpectSuccess(pair, 1);
    const nlohmann::json results = ReadJson(file).at("results");
    const double messages = results.at("n_iterations"), average = results.at("BW_average");
    const double seconds = messages * 65536 / (average * 1048576);
    EXPECT_GE(seconds, 0.02) << options;  // a busy machine may pause between rounds
    EXPECT_LE(seconds, pair.client_seconds) << options;
  }
  std::filesystem::remove(file);
}

/// Returns the counters of the client's software HCA, per queue pair.
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

TEST(Perf, WarmsUpWithAFullQueue) {
  EXPECT_EQ(RequestsOf("-n 300 -t 32 -q 2"), 600u);
  EXPECT_EQ(RequestsOf("-n 300 -t 32 -q 2 --perform_warm_up"), 600u + 2 * 32u);
}

TEST(Perf, SignalsEachCqModWithinTheDepth) {
  struct Case {
    const char* options;
    uint64_t completions, least_open, most_open;  // per queue pair
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

}  // namespace
