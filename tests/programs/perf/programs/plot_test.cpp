#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "runs.hpp"

/// Pictures drawn from reports.
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

size_t CountOf(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

uint32_t BigEndianAt(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(at, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

/// Checks both panels: axes with units, and three curves with a point per size.
void ExpectBothPanels(const std::string& svg, const std::string& bandwidth, const std::string& latency,
                      size_t sizes) {
  for (const char* const title : {"average bandwidth [MiB/sec]", "latency [usec]"})
    EXPECT_THAT(svg, HasSubstr(std::string(">") + title + "</tspan>"));
  EXPECT_EQ(CountOf(svg, ">message size \\[bytes\\]</tspan>"), 2u);  // one per panel
  EXPECT_THAT(svg, HasSubstr("measures processors, not a network"));
  for (const std::string& curve :
       {bandwidth + ": write, cpu", latency + ": write, cpu, median", latency + ": write, cpu, 99 %"}) {
    EXPECT_THAT(svg, HasSubstr("<title>" + curve + "</title>"));
    EXPECT_THAT(svg, HasSubstr("<text>" + curve + "</text>"));  // in the legend
  }
  EXPECT_EQ(CountOf(svg, "id=\"gnuplot_plot_"), 3u);
  EXPECT_EQ(CountOf(svg, "xlink:href='#gpPt[0-9]+' transform='translate"),
            3 * (sizes + 1));  // plus one in the legend
}

TEST(Perf, DrawsReports) {
  if (!IsInstalled("gnuplot")) GTEST_SKIP() << "gnuplot is not installed";
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

TEST(Perf, ReportsUnreadableFiles) {
  EXPECT_THAT(RunShell(PERF " --plot a.svg /no/such/file").output,
              HasSubstr("Cannot read /no/such/file: No such file"));
  EXPECT_THAT(RunShell(PERF " --plot a.svg /dev/null").output,
              HasSubstr("/dev/null is not a report of warpverbs-perf"));
}

TEST(Perf, DoesNotPrintAPictureWhoseFileCannotBeWritten) {
  if (!IsInstalled("gnuplot")) GTEST_SKIP() << "gnuplot is not installed";
  const std::string report = TemporaryFile("report.json");
  ExpectSuccess(RunPerfPair("-n 5", "-n 5 --out_json_file=" + report), 1);
  const Result outcome = RunShell(PERF " --plot /no/such/folder/a.svg " + report);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Cannot draw /no/such/folder/a.svg"), Not(HasSubstr("<svg"))));
  std::filesystem::remove(report);
}

TEST(Perf, ReportsAGnuplotThatDies) {
  const std::string file = TemporaryFile("many.json"), folder = TemporaryFile("path");
  ExpectSuccess(RunPerfPair("-n 5", "-n 5 --out_json_file=" + file), 1);
  nlohmann::json report = ReadJson(file);
  const nlohmann::json row = report.at("rows").front();
  for (int i = 0; i < 20000; ++i) report["rows"].push_back(row);  // a script larger than a pipe
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

}  // namespace
