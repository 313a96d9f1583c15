#include "perf/report/report.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../perftest_rows.hpp"
#include "perf/report/plot.hpp"

namespace warpverbs::perf {
namespace {

using testing::HasSubstr;
using testing::Not;

BandwidthFigures SomeBandwidth() {
  return {.bytes = 65536,
          .messages = 1000,
          .average = 968.9 * 1048576,
          .peak = 1118.75 * 1048576,
          .rate = 15502.4};
}

Options LatencyOptions() {
  Options options;
  options.measure = Measure::kLatency;
  options.iterations = 1000;
  options.sizes = {2};
  return options;
}

Options BandwidthOptions() {
  Options options;
  options.iterations = 1000;
  options.sizes = {65536};
  return options;
}

// The rows equal those of Debian's ib_write_bw and ib_write_lat for the same figures, byte for byte.

TEST(PerfReport, PrintsBandwidthsInPerftestsColumns) {
  const Options options = BandwidthOptions();
  EXPECT_EQ(ColumnHeads(options, "cpu"),
            " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n");
  EXPECT_EQ(ToText(options, {"cpu", SomeBandwidth()}),
            " 65536      1000             1118.75            968.90 \t\t   0.015502\n");
}

TEST(PerfReport, PrintsGigabitsWithSixDigits) {
  Options options = BandwidthOptions();
  options.gbits = true;
  EXPECT_EQ(ColumnHeads(options, "cpu"),
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n");
  const BandwidthFigures figures{
      .bytes = 8, .messages = 1000, .average = 0.010211e9 / 8, .peak = 0.018318e9 / 8, .rate = 159541};
  EXPECT_EQ(ToText(options, {"cpu", figures}),
            " 8          1000           0.018318            0.010211            0.159541\n");
}

TEST(PerfReport, PrintsLatenciesInPerftestsColumns) {
  const Options options = LatencyOptions();
  EXPECT_EQ(ColumnHeads(options, "cpu"),
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
            "t_stdev[usec]   99% "
            "percentile[usec]   99.9% percentile[usec] \n");
  const LatencyFigures figures{.bytes = 2,
                               .messages = 1000,
                               .min = 68.92,
                               .max = 2160.87,
                               .typical = 87.9,
                               .average = 95.84,
                               .deviation = 71.75,
                               .p99 = 146.54,
                               .p999 = 2160.87};
  EXPECT_EQ(
      ToText(options, {"cpu", figures}),
      " 2       1000          68.92          2160.87      87.90    \t       95.84       \t71.75  \t\t146.54  "
      "\t\t2160.87\n");
}

TEST(PerfReport, PrintsATablePerInitiator) {
  for (Options options : {BandwidthOptions(), LatencyOptions()}) {
    const Row row = options.is_latency() ? Row{"gpu", LatencyFigures{.bytes = 2, .messages = 1000}}
                                         : Row{"gpu", SomeBandwidth()};
    const std::string alone = ColumnHeads(options, "gpu") + ToText(options, row);
    options.initiators = {InitiatorKind::kCpu, InitiatorKind::kGpu};
    const std::string table = ColumnHeads(options, "gpu") + ToText(options, row);
    EXPECT_EQ(table, " # initiator: gpu\n" + alone);
    EXPECT_EQ(PerftestRows(ColumnHeads(options, "cpu") + ToText(options, row) + table), 2u) << table;
  }
}

TEST(PerfReport, NotesASoftwareHca) {
  const Options options = BandwidthOptions();
  EXPECT_THAT(Banner(options, {.software = true}), HasSubstr("not a network"));
  EXPECT_THAT(Banner(options, {}), Not(HasSubstr("not a network")));
}

TEST(PerfReport, NamesTheGpuWithClockAndRegisters) {
  const Options options = BandwidthOptions();
  const ReportContext context{
      .kernel = KernelFacts{.gpu = "NVIDIA H200", .max_sm_clock_khz = 1980000, .registers = 40}};
  EXPECT_THAT(Banner(options, context), HasSubstr(" GPU             : NVIDIA H200, max SM clock 1980[MHz]\n"
                                                  " Kernel          : 40 registers per thread\n"));
  const Json info = ToJson(options, context, {}).at("test_info");
  EXPECT_EQ(info.at("GPU"), "NVIDIA H200");
  EXPECT_EQ(info.at("Max_SM_clock_kHz"), 1980000);
  EXPECT_EQ(info.at("Registers_per_thread"), 40);
}

TEST(PerfReport, OmitsTheGpuWhenThreadsPost) {
  EXPECT_THAT(Banner(BandwidthOptions(), {}), Not(HasSubstr("GPU")));
  EXPECT_FALSE(ToJson(BandwidthOptions(), {}, {}).at("test_info").contains("Registers_per_thread"));
}

TEST(PerfReport, WritesPerftestsKeysAndEveryRowToJson) {
  const Options options = BandwidthOptions();
  BandwidthFigures first = SomeBandwidth();
  first.bytes = 2;
  const Json report = Json::parse(ToJson(options, {}, {{"cpu", first}, {"cpu", SomeBandwidth()}}).dump());
  EXPECT_EQ(report.at("rows").size(), 2u);
  const Json& results = report.at("results");
  EXPECT_EQ(results.at("MsgSize"), 65536);
  EXPECT_EQ(results.at("n_iterations"), 1000);
  EXPECT_DOUBLE_EQ(results.at("BW_peak"), 1118.75);
  EXPECT_DOUBLE_EQ(results.at("BW_average"), 968.9);
  EXPECT_DOUBLE_EQ(results.at("MsgRate"), 0.0155024);
  const Json latency = ToJson(LatencyOptions(), {}, {{"gpu", LatencyFigures{.p99 = 3}}});
  EXPECT_EQ(latency.at("results").at("percentile_99"), 3);
  EXPECT_EQ(latency.at("results").at("initiator"), "gpu");
}

TEST(PerfReport, AppliesThresholdsInTheUnitOfTheReport) {
  Options options = BandwidthOptions();
  options.min_bandwidth = 968.8;
  EXPECT_EQ(FailedThreshold(options, {"cpu", SomeBandwidth()}), "");
  options.min_bandwidth = 969;
  EXPECT_THAT(FailedThreshold(options, {"cpu", SomeBandwidth()}), HasSubstr("below the 969 of --min-bw"));
  options.gbits = true;
  options.min_bandwidth = 8.1;
  EXPECT_EQ(FailedThreshold(options, {"cpu", SomeBandwidth()}), "");
  Options latency = LatencyOptions();
  latency.max_p99_us = 5;
  EXPECT_EQ(FailedThreshold(latency, {"cpu", LatencyFigures{.p99 = 5}}), "");
  EXPECT_THAT(FailedThreshold(latency, {"cpu", LatencyFigures{.p99 = 5.1}}), HasSubstr("--max-p99"));
}

Json ReportOf(const Options& options, const std::vector<Row>& rows) { return ToJson(options, {}, rows); }

TEST(PerfPlot, DrawsAllFilesInTheUnitOfTheFirst) {
  const Options mib = BandwidthOptions();
  Options gbits = BandwidthOptions();
  gbits.gbits = true;
  const std::string script = PlotScript(
      "it's.svg", {{"runs/a.json", ReportOf(mib, {{"cpu", SomeBandwidth()}, {"gpu", SomeBandwidth()}})},
                   {"b.json", ReportOf(gbits, {{"cpu", SomeBandwidth()}})}});
  EXPECT_THAT(script, HasSubstr("set terminal svg"));
  EXPECT_THAT(script, HasSubstr("set output 'it''s.svg'"));
  EXPECT_THAT(script, HasSubstr("[MiB/sec]"));
  EXPECT_THAT(script, HasSubstr("title 'a: write, cpu'"));
  EXPECT_THAT(script, HasSubstr("title 'a: write, gpu'"));
  EXPECT_THAT(script, HasSubstr("title 'b: write, cpu'"));
  EXPECT_THAT(script, testing::ContainsRegex("65536 968\\.9\ne\n65536 968\\.9\ne\n65536 968\\.9[0-9]*\ne\n"));
  EXPECT_THAT(script, Not(HasSubstr("multiplot")));
}

TEST(PerfPlot, DrawsLatenciesBelowBandwidths) {
  const LatencyFigures figures{.bytes = 2, .typical = 4, .p99 = 9};
  const std::string script =
      PlotScript("a.png", {{"bw.json", ReportOf(BandwidthOptions(), {{"cpu", SomeBandwidth()}})},
                           {"lat.json", ReportOf(LatencyOptions(), {{"cpu", figures}})}});
  EXPECT_THAT(script, HasSubstr("set multiplot layout 2,1"));
  EXPECT_THAT(script, HasSubstr("latency [usec]"));
  EXPECT_THAT(script, HasSubstr("2 4\ne\n2 9\ne\n"));
}

TEST(PerfPlot, RejectsFilesThatAreNotReports) {
  EXPECT_THROW(PlotScript("a.png", {{"a.json", Json::object()}}), std::runtime_error);
  EXPECT_THROW(PlotScript("a.png", {{"a.json", Json()}}), std::runtime_error);
  Json lacking = ReportOf(BandwidthOptions(), {{"cpu", SomeBandwidth()}});
  lacking["rows"][0].erase("BW_average");
  EXPECT_THROW(PlotScript("a.png", {{"a.json", lacking}}), std::runtime_error);
}

TEST(PerfPlot, KillsAGnuplotThatDoesNotEnd) {
  const std::filesystem::path folder = testing::TempDir() + "hangs" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "gnuplot") << "#!/bin/sh\necho $$ >" << folder / "process"
                                    << "\nexec sleep 600\n";
  std::filesystem::permissions(folder / "gnuplot", std::filesystem::perms::owner_all);
  std::ofstream(folder / "bw.json") << ReportOf(BandwidthOptions(), {{"cpu", SomeBandwidth()}});
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder.string() + ":" + path).c_str(), 1);
  std::string reason;
  try {
    Plot("a.svg", {folder / "bw.json"}, std::chrono::seconds(2));
  } catch (const std::runtime_error& error) {
    reason = error.what();
  }
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(reason,
            "Cannot draw a.svg: gnuplot has not ended within 2 s. Check that it draws without a display "
            "(gnuplot-nox on Debian).");
  pid_t process = 0;
  if (std::ifstream(folder / "process") >> process) {  // otherwise a busy machine had not started it yet
    EXPECT_EQ(kill(process, 0), -1) << "it still runs";
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace warpverbs::perf
