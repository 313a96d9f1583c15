#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "golden.hpp"
#include "observation/observation_file.hpp"

namespace warpverbs::programs {
namespace {

constexpr const char* kObserved = R"({"version":1,"pid":7,"program":"train","queues":[
{"device":"mlx5_0","port":1,"qpn":257,"clock":"host",
 "counters":{"posts":3,"wqebbs":5,"doorbells":2,"elided":1,"polls":18446744073709551615,
             "stalls":{"full":{"count":1,"total_ns":1500000000,"longest_ns":1500000000},
                       "turn":{"count":0,"total_ns":0,"longest_ns":0},
                       "completion":{"count":2,"total_ns":70,"longest_ns":40}}},
 "trace":[[0,9,1000,1],[3,9,1500,1],[5,9,2000,300]]},
{"device":"mlx5_1","port":2,"qpn":300,"clock":"gpu",
 "counters":{"posts":0,"wqebbs":0,"doorbells":0,"elided":0,"polls":0,
             "stalls":{"full":{"count":0,"total_ns":0,"longest_ns":0},
                       "turn":{"count":0,"total_ns":0,"longest_ns":0},
                       "completion":{"count":0,"total_ns":0,"longest_ns":0}}},
 "trace":[]}]})";

/// A file with a text, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("warpverbs-observed-" + std::to_string(getpid()))) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

ObservationFile Read(const std::string& text) { return ReadObservations(TemporaryFile(text).path()); }

std::string ErrorOf(const std::string& text) {
  try {
    static_cast<void>(Read(text));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Observations, AreReadFromAFile) {
  const ObservationFile file = Read(kObserved);
  EXPECT_EQ(file.program, "train");
  EXPECT_EQ(file.pid, 7);
  ASSERT_EQ(file.queues.size(), 2U);
  const ObservedQueue& queue = file.queues[0];
  EXPECT_EQ(queue.device, "mlx5_0");
  EXPECT_EQ(queue.qpn, 257U);
  EXPECT_FALSE(queue.on_gpu);
  EXPECT_TRUE(file.queues[1].on_gpu);
  EXPECT_EQ(queue.counters.polls, ~uint64_t{0});
  EXPECT_EQ(queue.counters.stalls[static_cast<uint32_t>(device::Stall::kCompletion)].longest_ns, 40U);
  ASSERT_EQ(queue.trace.size(), 3U);
  EXPECT_EQ(queue.trace[2].kind, device::TraceKind::kDone);
  EXPECT_EQ(queue.trace[2].event.index, 9U);
  EXPECT_EQ(queue.trace[2].event.time_ns, 2000U);
  EXPECT_EQ(queue.trace[2].event.value, 300U);
}

TEST(Observations, OfAnotherFormatAreRefusedWithTheReason) {
  EXPECT_NE(ErrorOf("no JSON").find("it is no file of host::SaveObservations()"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"version":2})").find("its version is another"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"version":1,"pid":7})").find("program"), std::string::npos);
  std::string strange = kObserved;
  strange.replace(strange.find("[5,9,"), 2, "[6");
  EXPECT_NE(ErrorOf(strange).find("an event of kind 6"), std::string::npos);
  EXPECT_THROW(static_cast<void>(ReadObservations("/nowhere/observed.json")), std::runtime_error);
}

TEST(Metrics, AreThoseOfEveryQueue) {
  EXPECT_TRUE(golden::MatchesFile("metrics.txt", MetricsText({Read(kObserved)})));
}

TEST(Metrics, FollowTheFormatOfPrometheus) {
  ObservationFile odd = Read(kObserved);
  odd.program = "a \"quoted\" \\ name";
  std::istringstream lines(MetricsText({Read(kObserved), odd}));
  const std::regex comment(R"(# (HELP|TYPE) (warpverbs_[a-z_]+) (.+))");
  const std::regex sample(R"((warpverbs_[a-z_]+)\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\} [0-9]+(\.[0-9]+)?)");
  std::map<std::string, std::string> types;
  std::string family;
  size_t samples = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      if (match[1] == "HELP") {
        family = match[2];
        EXPECT_FALSE(types.contains(family)) << "a family stands together";
      } else {
        EXPECT_EQ(match[2], family);
        types[family] = match[3];
      }
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_EQ(match[1], family);
    EXPECT_EQ(family.ends_with("_total"), types[family] == "counter") << family;
    ++samples;
  }
  EXPECT_EQ(types.size(), 8U);
  EXPECT_EQ(samples, 4 * (5 + 3 * 3U)) << "four queues, three causes";
}

}  // namespace
}  // namespace warpverbs::programs
