#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "common/run_shell.hpp"

/// Runs the soak with every observer, and checks that their files about two real processes agree.
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class WatchedSoak : public testing::Test {
 protected:
  WatchedSoak() { fs::create_directory(folder); }
  ~WatchedSoak() override { fs::remove_all(folder); }

  Result Run(const std::string& options, const std::string& seconds = "1") const {
    return RunShell(SOFTHCA_PATH " " + options + " -- " SOAK_PATH " --seed 3 --seconds " + seconds);
  }
  /// Returns an option with a file per process.
  std::string File(const std::string& option) const {
    return " --" + option + "=" + (folder / (option + ".%p")).string();
  }
  /// Returns the files of the two processes.
  std::vector<fs::path> Files(const std::string& option) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().stem() == option) files.push_back(entry.path());
    }
    EXPECT_EQ(files.size(), 2u) << option;
    return files;
  }
  static json ReadJson(const fs::path& file) { return json::parse(std::ifstream(file)); }

  const fs::path folder = fs::path(testing::TempDir()) / ("watched_soak." + std::to_string(getpid()));
};

TEST_F(WatchedSoak, TracesACompletionForEveryCountedRequest) {
  const Result result = Run("--fault drop:1%" + File("trace") + File("stats"));
  ASSERT_EQ(result.exit_status, 0) << result.output;
  std::map<std::string, std::string> phases_by_request;
  size_t packets = 0;
  for (const fs::path& file : Files("trace")) {
    for (const json& event : ReadJson(file)) {
      const std::string phase = event.at("ph");
      if (phase == "b" || phase == "e") phases_by_request[event.at("id")] += phase;
      if (phase == "i" && event.contains("args") && event.at("args").contains("psn")) ++packets;
    }
  }
  size_t requests = 0, counted_packets = 0, resent = 0;
  for (const fs::path& file : Files("stats")) {
    const json stats = ReadJson(file);
    EXPECT_EQ(stats.at("qps").size(), 8u);
    for (const json& qp : stats.at("qps")) {
      requests += qp.at("requests").get<size_t>();
      counted_packets += qp.at("packets_sent").get<size_t>() + qp.at("packets_received").get<size_t>();
      resent += qp.at("sent_again").get<size_t>();
      EXPECT_EQ(qp.at("failed"), 0);
    }
  }
  EXPECT_GT(requests, 100u);
  EXPECT_EQ(phases_by_request.size(), requests);
  for (const auto& [id, phases] : phases_by_request) ASSERT_EQ(phases, "be") << "request " << id;
  EXPECT_EQ(packets, counted_packets);
  EXPECT_GT(resent, 0u) << "one frame in a hundred was lost";
}

TEST_F(WatchedSoak, CapturesTheSameFramesOnBothSides) {
  if (!IsInstalled("tshark")) GTEST_SKIP() << "tshark is not installed";
  const Result result = Run(File("pcap").substr(1));
  ASSERT_EQ(result.exit_status, 0) << result.output;
  constexpr size_t kDissected = 2000;  // a part of the frames: tshark is slow
  std::vector<uintmax_t> bytes;
  for (const fs::path& file : Files("pcap")) {
    bytes.push_back(fs::file_size(file));
    const Result fields = RunShell("tshark -r " + file.string() + " -c " + std::to_string(kDissected) +
                                   " -T fields -e infiniband.bth.opcode 2>/dev/null");
    std::istringstream lines(fields.output);
    size_t count = 0;
    std::set<int> opcodes;
    for (std::string line; std::getline(lines, line); ++count) opcodes.insert(std::stoi(line));
    EXPECT_EQ(count, kDissected);
    EXPECT_GT(opcodes.size(), 15u) << "all kinds";
  }
  ASSERT_EQ(bytes.size(), 2u);
  // Frames in flight when a process ends are in one file only.
  EXPECT_NEAR(static_cast<double>(bytes[0]), static_cast<double>(bytes[1]),
              static_cast<double>(bytes[0]) / 50);
}

TEST_F(WatchedSoak, LeavesAReadableTraceWhenAProcessIsKilled) {
  // A busy machine connects the queue pairs long before that.
  const Result result = Run("--fault kill,after=2000ms" + File("trace"), "60");
  EXPECT_NE(result.exit_status, 0);
  for (const fs::path& file : Files("trace")) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    EXPECT_GT(json::parse(text.str() + "]").size(), 10u);
  }
}

TEST_F(WatchedSoak, ReportsForcedSyndrome) {
  const Result result = Run("--fault syndrome:0x14,index=9 --log warning");
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, testing::HasSubstr("fails: remote operation error"));
}

}  // namespace
