#include <gmock/gmock.h>

#include <filesystem>

#include "runs.hpp"

/// Sides that die, hang or fail while the other one measures.
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

/// Matches a reason for the end of a program.
constexpr char kWhy[] = "warpverbs-perf: [A-Z][^\n]+\\.\n";

TEST(Perf, EndsTheServerWhenTheClientDies) {
  const PerfPair pair = RunPerfPair("-D 60 --timeout 20", "-D 60 --timeout 20", "", "--fault kill,after=2s");
  EXPECT_NE(pair.client_status, 0);
  EXPECT_EQ(pair.server_status, 1);
  EXPECT_THAT(pair.server, ContainsRegex(kWhy));
}

TEST(Perf, EndsTheClientOfADeadServer) {
  const PerfPair pair =
      RunPerfPair("-D 60 --measure latency", "-D 60 --measure latency --timeout 5", "--fault kill,after=2s");
  EXPECT_EQ(pair.client_status, 1) << pair.client;
}

/// A round that lasts longer than the test.
class PerfInAnEndlessRound : public testing::TestWithParam<const char*> {
 protected:
  static std::string Options(const std::string& timeout) {
    return std::string("-n 1000000000 ") + GetParam() + " --timeout " + timeout;
  }
  const std::string process_ = TemporaryFile("process");

  /// Returns options of softhca that signal the program during its round. It writes its process ID.
  std::string Hit(const std::string& signal) const {
    return "-- sh -c 'echo $$ >" + process_ +
           "; (until grep -q \"#bytes\" /proc/$$/fd/1; do kill -0 $$ || exit; sleep 0.1; done; sleep 0.3; "
           "kill -" +
           signal + " $$) & exec \"$@\"'";
  }
};

TEST_P(PerfInAnEndlessRound, EndsWhenTheOtherSideDies) {
  const std::string options = Options("1000");  // never expires
  const PerfPair without_server = RunPerfPair(options, options, Hit("KILL"));
  EXPECT_EQ(without_server.client_status, 1) << without_server.client;
  EXPECT_THAT(without_server.client, ContainsRegex(kWhy));
  const PerfPair without_client = RunPerfPair(options, options, "", Hit("KILL"));
  EXPECT_EQ(without_client.server_status, 1) << without_client.server;
  EXPECT_THAT(without_client.server, ContainsRegex(kWhy));
  std::filesystem::remove(process_);
}

TEST_P(PerfInAnEndlessRound, EndsByTheDeadlineWhenTheServerHangs) {
  const std::string then_kill =
      "-- sh -c '\"$@\"; status=$?; kill -KILL $(cat " + process_ + "); exit $status'";
  const PerfPair pair = RunPerfPair(Options("1000"), Options("5"), Hit("STOP"), then_kill);
  EXPECT_EQ(pair.client_status, 1) << pair.client;
  EXPECT_THAT(pair.client, ContainsRegex(kWhy));
  std::filesystem::remove(process_);
}

INSTANTIATE_TEST_SUITE_P(, PerfInAnEndlessRound,
                         testing::Values("", "-b --test send", "--measure latency",
                                         "--measure latency --test read",
                                         "--scope warp --sharing shared -s 64"));

TEST(Perf, ReportsThePeersFailureOnAPassiveSide) {
  const std::string options = "-n 1000000000 --timeout 1000 --test send";
  const PerfPair pair = RunPerfPair(options, options, "", "--fault syndrome:0x13,index=100");
  EXPECT_EQ(pair.client_status, 1) << pair.client;
  EXPECT_EQ(pair.server_status, 1) << pair.server;
  EXPECT_THAT(pair.server, HasSubstr("warpverbs-perf: The peer failed: "));
}

}  // namespace
