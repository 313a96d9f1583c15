// The transport's benchmarks as users run them, on a software HCA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "common/run_shell.hpp"

namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Returns the command line of the benchmarks under softhca, with a limit on time.
std::string Benchmarks(const std::string& softhca_options = "") {
  return "timeout -s KILL 100 " SOFTHCA " --devx-events " + softhca_options + " -- " TRANSPORT_BENCHMARK;
}

/// Short runs of both directions at the smallest size.
const std::string kShort = " --benchmark_min_time=0.02 --benchmark_filter='(Write|Read)/8192/real_time$'";

TEST(TransportBenchmark, ListsEverySizeFrom8KiBTo256MiB) {
  const Result named = RunShell(Benchmarks() + " --benchmark_list_tests=true");
  EXPECT_EQ(named.exit_status, 0) << named.output;
  for (uint64_t bytes = 8192; bytes <= 268435456; bytes *= 2) {
    EXPECT_THAT(named.output,
                AllOf(HasSubstr("BM_RdmaTransport_Write/" + std::to_string(bytes) + "/real_time\n"),
                      HasSubstr("BM_RdmaTransport_Read/" + std::to_string(bytes) + "/real_time\n")));
  }
}

TEST(TransportBenchmark, ReportsTimesIterationsAndBytesPerSecond) {
  const Result run =
      RunShell("report=$(mktemp) && trap 'rm $report' EXIT && " + Benchmarks() + kShort +
               " --benchmark_out=$report --benchmark_out_format=json && echo REPORT && cat $report");
  ASSERT_EQ(run.exit_status, 0) << run.output;
  const size_t mark = run.output.find("REPORT\n");
  ASSERT_NE(mark, std::string::npos) << run.output;
  EXPECT_THAT(run.output.substr(0, mark), AllOf(HasSubstr("Time"), HasSubstr("CPU"), HasSubstr("Iterations"),
                                                HasSubstr("bytes_per_second=")));
  const auto report = nlohmann::json::parse(run.output.substr(run.output.find('{', mark)), nullptr, false);
  ASSERT_TRUE(report.is_object()) << run.output;
  EXPECT_THAT(report["context"].value("nic", ""), HasSubstr("softhca"));
  ASSERT_EQ(report["benchmarks"].size(), 2u);
  const char* const names[] = {"BM_RdmaTransport_Write/8192/real_time",
                               "BM_RdmaTransport_Read/8192/real_time"};
  for (size_t i = 0; i < 2; ++i) {
    const auto& row = report["benchmarks"][i];
    EXPECT_EQ(row.value("name", ""), names[i]);
    EXPECT_FALSE(row.value("error_occurred", false));
    EXPECT_EQ(row.value("time_unit", ""), "ns");
    EXPECT_GT(row.value("iterations", 0), 0);
    EXPECT_GT(row.value("cpu_time", 0.0), 0);
    const double time_ns = row.value("real_time", 0.0);
    EXPECT_GT(time_ns, 0);
    EXPECT_NEAR(row.value("bytes_per_second", 0.0), 8192 / (time_ns * 1e-9), 8192 / (time_ns * 1e-9) * 0.01);
  }
}

/// One bit of the payload is flipped in a way that no check of the wire finds.
TEST(TransportBenchmark, FailsWhenTheBytesAreWrong) {
  for (const char* const fault : {"flip,op=WRITE_LAST", "flip,op=READ_RESP_LAST"}) {
    const Result run = RunShell(Benchmarks(std::string("--fault ") + fault) + kShort);
    EXPECT_EQ(run.exit_status, 1) << run.output;
    EXPECT_THAT(run.output, HasSubstr("the data are wrong"));
  }
}

}  // namespace
