#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <vector>

#include "runs.hpp"

/// The output of a run: steps, addresses, progress, figures.
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Perf, WritesConsistentFiguresToJson) {
  const std::string file = TemporaryFile("figures.json");
  const PerfPair pair = RunPerfPair("-n 500 -q 2", "-n 500 -q 2 --out_json_file=" + file);
  ExpectSuccess(pair, 1);
  const nlohmann::json report = ReadJson(file), results = report.at("results");
  EXPECT_EQ(results.at("MsgSize"), 65536);
  EXPECT_EQ(results.at("n_iterations"), 1000);
  const double average = results.at("BW_average"), peak = results.at("BW_peak");
  // All bytes were transferred while the client ran. The peak is not below the average.
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

TEST(Perf, PrintsThePathAndNotesTheSoftwareHca) {
  const PerfPair pair = RunPerf("-n 10");
  EXPECT_THAT(pair.client,
              AllOf(HasSubstr("not a network"), HasSubstr(" messages: host memory"), HasSubstr("doorbell: "),
                    HasSubstr("GID 3"), HasSubstr("Device         : mlx5_0")));
}

TEST(Perf, PrintsTheStepsInOrder) {
  const PerfPair pair = RunPerf("-n 10 --verbose");
  ExpectSuccess(pair, 1);
  for (const std::string* const output : {&pair.client, &pair.server}) {
    std::vector<std::string> steps;
    std::istringstream lines(*output);
    const std::string program = "warpverbs-perf: ";
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(program) && line.find("listening") == std::string::npos)
        steps.push_back(line.substr(program.size()));
    EXPECT_THAT(
        steps,
        testing::ElementsAre(
            "parse the command line", "find a device", "open the device", "check the device's capabilities",
            "check the link", "meet the peer", "exchange versions", "exchange options",
            "exchange page and cache line sizes", "check the MTU", "allocate and register memory",
            "create queues", "exchange LIDs, GIDs, QPNs, PSNs, rkeys and addresses",
            "connect the queues, from INIT to RTS", "wait until both sides are ready",
            "run, and exchange the figures of each row", "wait until both sides have all rows"));
  }
}

class PerfAddresses : public testing::TestWithParam<const char*> {};

TEST_P(PerfAddresses, AreEqualOnBothSides) {
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

INSTANTIATE_TEST_SUITE_P(, PerfAddresses, testing::Values("-n 10 -q 2", "-n 10 -q 2 -R"));

TEST(Perf, ShowsAndErasesProgressOnATerminal) {
  const PerfPair pair = RunPerfPair("-D 2.5", "-D 2.5", "", "", "", Output::kTerminal);
  EXPECT_EQ(pair.client_status, 0) << pair.client;
  EXPECT_THAT(pair.client, HasSubstr("\r measuring 65536 bytes, cpu: 0 of 2.5 s"));
  EXPECT_THAT(pair.client, testing::ContainsRegex("\r measuring 65536 bytes, cpu: [1-9][0-9]* of 2\\.5 s"));
  EXPECT_THAT(pair.client, HasSubstr("\r\033[K 65536 "));  // the row replaces it
}

TEST(Perf, ShowsProgressWithoutADuration) {
  const PerfPair pair = RunPerfPair("-n 200", "-n 200", "", "", "", Output::kTerminal);
  EXPECT_EQ(pair.client_status, 0) << pair.client;
  EXPECT_THAT(pair.client, HasSubstr("\r measuring 65536 bytes, cpu: 0 s"));
}

TEST(Perf, ShowsNoProgressInAFile) { EXPECT_THAT(RunPerf("-n 10").client, Not(HasSubstr("measuring"))); }

}  // namespace
