#include <gmock/gmock.h>

#include "runs.hpp"

/// A side that dies while the other one measures.
namespace {

using testing::HasSubstr;

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

}  // namespace
