// What a program observes of itself, beside what softhca sees of it.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/run_shell.hpp"
#include "observation/perfetto.hpp"

namespace warpverbs::programs {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int64_t kPosts = 50;

/// A run of the observed program under softhca, with its files.
class TraceTest : public testing::Test {
 protected:
  TraceTest() {
    std::filesystem::create_directory(folder_);
    const Result run = RunShell(SOFTHCA " --trace " + softhca_ + " -- " OBSERVED_PROGRAM " " + observed_);
    EXPECT_EQ(run.exit_status, 0) << run.output;
  }
  ~TraceTest() override { std::filesystem::remove_all(folder_); }

  static json Parse(const Result& run) {
    EXPECT_EQ(run.exit_status, 0) << run.output;
    return json::parse(run.output);
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("warpverbs-trace-" + std::to_string(getpid()));
  const std::string softhca_ = folder_ / "softhca.json", observed_ = folder_ / "observed.json";
};

TEST_F(TraceTest, HasTheTracksOfPostersAndOfSofthca) {
  const json events = Parse(RunShell(TRACE " --softhca " + softhca_ + " " + observed_));
  const ObservationFile file = ReadObservations(observed_);
  std::map<std::string, json> tracks;
  for (const json& event : events) {
    EXPECT_EQ(event.at("pid"), file.pid);
    if (event.at("name") == "thread_name") tracks[event.at("args").at("name")] = event.at("tid");
  }
  char qpn[16];
  std::snprintf(qpn, sizeof qpn, "0x%x", file.queues[0].qpn);
  const std::string name = "mlx5_0 QP " + std::string(qpn);
  ASSERT_TRUE(tracks.contains("posters of " + name)) << events.dump();
  ASSERT_TRUE(tracks.contains(name + " RC"));
  std::map<int64_t, double> began, rung, written, done;
  for (const json& event : events) {
    const bool poster = event.at("tid") == tracks["posters of " + name];
    if (!poster && event.at("tid") != tracks[name + " RC"]) continue;
    const auto index = [&] { return event.at("args").at("index").get<int64_t>(); };
    const double at = event.at("ts");
    if (poster && event.at("name") == "post" && event.at("ph") == "b") began[index()] = at;
    if (poster && event.at("name") == "wait for completion" && event.at("ph") == "b")
      done[index()] = at + event.at("args").at("ns").get<double>() / 1000;
    if (!poster && event.at("name") == "doorbell") rung[event.at("args").at("end").get<int64_t>() - 1] = at;
    if (!poster && event.at("name") == "completion") written[index()] = at;
  }
  ASSERT_EQ(began.size(), kPosts);
  ASSERT_EQ(done.size(), kPosts);
  for (int64_t i = 0; i < kPosts; ++i) {
    ASSERT_TRUE(written.contains(i)) << i;
    EXPECT_LE(began[i], written[i]) << "one clock";
    EXPECT_GE(done[i] + 1000, written[i]) << "softhca notes a completion after it has written it";
  }
  // softhca may read the doorbell record of a later post when it sees a doorbell, and the later post then has
  // none of its own.
  ASSERT_FALSE(rung.empty());
  for (const auto& [i, at] : rung) EXPECT_LE(began[i], at) << i;
}

TEST_F(TraceTest, StandsAloneWithoutSofthcasFile) {
  const std::string output = folder_ / "trace.json";
  EXPECT_EQ(RunShell(TRACE " --output " + output + " " + observed_).exit_status, 0);
  std::ifstream stream(output);
  const json events = json::parse(stream);
  std::map<std::string, int64_t> phases;
  for (const json& event : events) ++phases[event.at("ph").get<std::string>()];
  EXPECT_EQ(phases["b"], 2 * kPosts) << "posts and waits";
  EXPECT_EQ(phases["e"], 2 * kPosts);
  EXPECT_EQ(phases["i"], kPosts) << "doorbells";
}

TEST_F(TraceTest, FindsTheClockOfAGpu) {
  constexpr int64_t kShift = 1'000'000'000'000;
  ObservationFile file = ReadObservations(observed_);
  ObservedQueue& queue = file.queues[0];
  for (host::TracedStep& step : queue.trace) step.event.time_ns += kShift;
  const json softhca = ReadSofthcaTrace(softhca_);
  const auto offset = ClockOffset(file, queue, softhca);
  ASSERT_TRUE(offset.has_value());
  EXPECT_LT(std::abs(*offset + kShift), 1'000'000'000)
      << "exact but for the time between a post and its doorbell";
  queue.qpn += 100;
  EXPECT_FALSE(ClockOffset(file, queue, softhca).has_value()) << "another queue";
}

TEST_F(TraceTest, ReadsATraceThatWasNotCompleted) {
  std::ifstream stream(softhca_);
  std::string text((std::istreambuf_iterator<char>(stream)), {});
  const size_t whole = ReadSofthcaTrace(softhca_).size();
  text.resize(text.rfind(']'));
  std::ofstream(softhca_) << text << ",";
  EXPECT_EQ(ReadSofthcaTrace(softhca_).size(), whole);
  std::ofstream(softhca_) << "no trace";
  EXPECT_THROW(static_cast<void>(ReadSofthcaTrace(softhca_)), std::runtime_error);
}

TEST_F(TraceTest, MetricsAreThoseOfTheProgram) {
  const Result metrics = RunShell(INFO " --metrics " + observed_);
  EXPECT_EQ(metrics.exit_status, 0);
  EXPECT_THAT(metrics.output, HasSubstr("warpverbs_posts_total{program=\"observed_progra"));
  EXPECT_THAT(metrics.output, HasSubstr("\"} 50\n"));
  const Result missing = RunShell(INFO " --metrics /nowhere/file");
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_THAT(missing.output, HasSubstr("Cannot read /nowhere/file: No such file or directory"));
}

}  // namespace
}  // namespace warpverbs::programs
