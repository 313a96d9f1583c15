// The example two_processes, with a software HCA for each process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <stdexcept>
#include <string>

#include "../../examples/two_processes/tcp_address.hpp"
#include "common/dead_client.hpp"
#include "common/run_shell.hpp"
#include "two_sides.hpp"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Run {
  std::string softhca_options;
  std::string options;      // options of the example
  std::string prefix = "";  // start of the whole command line
};

/// Runs both sides and returns their output, as RunTwoSides() does.
std::string Interchange(const Run& listener, const Run& connector, const std::string& host = "127.0.0.1") {
  const auto command = [](const Run& run, const std::string& role) {
    return OnSofthca(run.softhca_options, TWO_PROCESSES " " + run.options + role, run.prefix);
  };
  return RunTwoSides(command(listener, " --listen 0"), command(connector, " --connect " + host + ":$port"));
}

std::string InterchangeAlike(const std::string& faults, const std::string& options) {
  return Interchange({faults, options + " --value 7"}, {faults, options});
}

testing::Matcher<std::string> BothSucceed(const std::string& summary) {
  return AllOf(HasSubstr("listener: Success! " + summary), HasSubstr("connector: Success! " + summary),
               HasSubstr("listener exits with 0"), HasSubstr("connector exits with 0"));
}

TEST(TwoProcesses, InterchangeOneRound) {
  EXPECT_THAT(InterchangeAlike("", ""),
              BothSucceed("All 1024 bytes of 1 rounds verified; 2 completions, each once and in order"));
}

TEST(TwoProcesses, InterchangeManyRoundsOfMoreBytesThanADoorbellCovers) {
  EXPECT_THAT(InterchangeAlike("", "--iterations 12 --bytes 300001"),
              BothSucceed("All 300001 bytes of 12 rounds verified; 900 completions, each once and in order"));
}

TEST(TwoProcesses, InterchangeAfterAClientThatDied) {
  const std::string listener = OnSofthca("", TWO_PROCESSES " --listen 0"),
                    connector = OnSofthca("", TWO_PROCESSES " --connect 127.0.0.1:$port");
  const std::string output = RunTwoSides(listener, connector, kDeadClient);
  EXPECT_THAT(output,
              BothSucceed("All 1024 bytes of 1 rounds verified; 2 completions, each once and in order"));
  EXPECT_THAT(output, HasSubstr("listener:    not a client: Cannot swap introductions with 127.0.0.1 port "));
}

class FaultyFabric : public testing::TestWithParam<std::string> {};

TEST_P(FaultyFabric, ChangesNoByteAndNoCompletion) {
  EXPECT_THAT(InterchangeAlike(GetParam(), "--iterations 8 --bytes 100001"),
              BothSucceed("All 100001 bytes of 8 rounds verified; 208 completions, each once and in order"));
}

INSTANTIATE_TEST_SUITE_P(
    , FaultyFabric,
    testing::Values("--fault drop:5%", "--fault duplicate:5%", "--fault reorder:5%", "--fault corrupt:5%",
                    "--fault drop:2% --fault duplicate:2% --fault reorder:2% --fault corrupt:2%"),
    [](const auto& faults) { return std::regex_replace(faults.param, std::regex("--fault |[^a-z]"), ""); });

TEST(TwoProcesses, InterchangeOnACable) {
  const std::string ends = testing::TempDir() + "cable" + std::to_string(getpid());
  const std::string here = ends + "a", there = ends + "b";
  const std::string output = Interchange({"--cable " + here + "," + there + " --address 10.79.0.1/24", ""},
                                         {"--cable " + there + "," + here + " --address 10.79.0.2/24", ""});
  EXPECT_THAT(output, HasSubstr("10.79.0.2"));
  EXPECT_THAT(output,
              BothSucceed("All 1024 bytes of 1 rounds verified; 2 completions, each once and in order"));
}

TEST(TwoProcesses, BothReportThatTheyDisagree) {
  const std::string output = Interchange({"", "--bytes 10"}, {"", "--bytes 11 --iterations 2"});
  EXPECT_THAT(
      output,
      HasSubstr(
          "listener: The two sides do not agree: 1 rounds of 10 bytes here, 2 rounds of 11 bytes there."));
  EXPECT_THAT(
      output,
      HasSubstr(
          "connector: The two sides do not agree: 2 rounds of 11 bytes here, 1 rounds of 10 bytes there."));
  EXPECT_THAT(output, AllOf(HasSubstr("listener exits with 1"), HasSubstr("connector exits with 1")));
}

TEST(TwoProcesses, ListenerStopsWaitingAfterItsTimeout) {
  const std::string output = Interchange({"", "--timeout 2"}, {"--port-down all", ""});
  EXPECT_THAT(output, HasSubstr("no port is active"));
  EXPECT_THAT(output, HasSubstr("no peer connected within "));
  EXPECT_THAT(output, AllOf(HasSubstr("listener exits with 1"), HasSubstr("connector exits with 1")));
}

TEST(TwoProcesses, FailWithinTheTimeoutWhenNothingArrives) {
  const std::string output = Interchange({"--fault drop:100%", "--timeout 2"}, {"", "--timeout 2"});
  EXPECT_THAT(output, HasSubstr("The interchange failed: "));
  EXPECT_THAT(output, Not(HasSubstr("Success")));
  EXPECT_THAT(output, AllOf(HasSubstr("listener exits with 1"), HasSubstr("connector exits with 1")));
}

/// Two network namespaces joined by a virtual cable: 10.78.0.1 and 10.78.0.2.
class Namespaces {
 public:
  Namespaces() : first_("interchange" + std::to_string(getpid()) + "a"), second_(first_ + "b") {
    error_ =
        RunShell("set -e; ip netns add " + first_ + "; ip netns add " + second_ + "; ip -n " + first_ +
                 " link add eth0 type veth peer name eth0 netns " + second_ + "; for i in 1:" + first_ +
                 " 2:" + second_ +
                 "; do n=${i#*:}; ip -n $n link set lo up; ip -n $n addr add 10.78.0.${i%%:*}/24 dev eth0;"
                 " ip -n $n link set eth0 up; done")
            .output;
  }
  ~Namespaces() { RunShell("ip netns del " + first_ + "; ip netns del " + second_); }

  const std::string& error() const { return error_; }  // empty: the namespaces exist
  Run In(bool first, const std::string& softhca, const std::string& options) const {
    return {"--interface eth0 " + softhca, options, "ip netns exec " + (first ? first_ : second_)};
  }

 private:
  std::string first_, second_, error_;
};

TEST(TwoProcesses, InterchangeBetweenTwoNetworkNamespaces) {
  const Namespaces namespaces;
  if (!namespaces.error().empty())
    GTEST_SKIP() << "this machine allows no network namespaces: " << namespaces.error();
  for (const char* faults :
       {"", "--fault drop:5% --fault duplicate:2% --fault reorder:2% --fault corrupt:2%"}) {
    const std::string options = "--iterations 4 --bytes 100001";
    EXPECT_THAT(
        Interchange(namespaces.In(true, faults, options), namespaces.In(false, faults, options), "10.78.0.1"),
        BothSucceed("All 100001 bytes of 4 rounds verified; 104 completions, each once and in order"));
  }
}

TEST(TwoProcesses, TakesTheFabricFromNcclVariablesUnlessOptionsSayOtherwise) {
  const std::string nccl = "env NCCL_IB_HCA=mlx5_1 NCCL_IB_GID_INDEX=1 NCCL_IB_TC=106 NCCL_IB_SL=5 ";
  const std::string run = nccl + SOFTHCA " --devices 2 -- " TWO_PROCESSES " --listen 0 --timeout 1 ";
  EXPECT_THAT(RunShell(run).output,
              HasSubstr("   taking mlx5_1 port 1 (from NCCL_IB_HCA=mlx5_1), GID 1 (from NCCL_IB_GID_INDEX=1), "
                        "traffic class 106 (from NCCL_IB_TC=106), service level 5 (from NCCL_IB_SL=5)\n"));
  EXPECT_THAT(RunShell(run + "--nic mlx5_0 --gid-index 3 --traffic-class 8 --service-level 0").output,
              HasSubstr("   taking mlx5_0 (from the command line), GID 3 (from --gid-index), traffic class 8 (from "
                        "--traffic-class), service level 0 (from --service-level)\n"));
}

TEST(TwoProcesses, RefusesAnInvalidNcclVariable) {
  const Result result = RunShell("env NCCL_IB_SL=16 " TWO_PROCESSES " --listen 0");
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_THAT(result.output,
              testing::EndsWith(": Cannot use NCCL_IB_SL=16: a service level is a number from 0 to 15. "
                                "Set it to a number from 0 to 15, or unset it.\n"));
  const Result none = RunShell(SOFTHCA " -- env NCCL_IB_HCA=mlx5_7 " TWO_PROCESSES " --listen 0");
  EXPECT_EQ(none.exit_status, 1);
  EXPECT_THAT(none.output,
              HasSubstr("Cannot use NCCL_IB_HCA=mlx5_7: it allows no active port. Set it to an active "
                        "port, such as mlx5_0:1, or unset it."));
}

TEST(TwoProcesses, HelpListsItsOptions) {
  const Result result = RunShell(TWO_PROCESSES " --help");
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.output, testing::StartsWith("Teaches RDMA between two processes"));
  for (const char* option :
       {"--listen", "--connect", "--iterations", "--timeout", "--gid-index", "NCCL_IB_HCA"})
    EXPECT_THAT(result.output, HasSubstr(option));
}

TEST(TwoProcesses, RefusesInvalidOptionsWithStatus2) {
  for (const char* option :
       {"", "--listen 1 --connect here", "--listen here", "--connect :1", "--listen 1 --value 256",
        "--listen 1 --iterations 0", "--listen 1 --device cuda:0,cuda:1", "--listen 1 --placement gpu",
        "--listen 1 stray"}) {
    const Result result = RunShell(std::string(TWO_PROCESSES " ") + option);
    EXPECT_EQ(result.exit_status, 2) << option << "\n" << result.output;
    EXPECT_THAT(result.output, testing::EndsWith("see --help\n"));
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
}

TEST(TwoProcesses, RefusesAGpuInABuildWithoutCuda) {
  if (WITH_CUDA) GTEST_SKIP() << "built with CUDA";
  const Result result = RunShell(TWO_PROCESSES " --listen 0 --device cuda:0");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, testing::StartsWith("Cannot use a GPU: this program was built without CUDA."));
}

std::string Parsed(const char* text, bool listens) {
  const warpverbs::host::TcpAddress address = ParseTcpAddress(text, listens);
  return address.host + "|" + std::to_string(address.port);
}

TEST(TcpAddress, IsParsedFromBothForms) {
  EXPECT_EQ(Parsed("4000", true), "|4000");
  EXPECT_EQ(Parsed("localhost:4000", true), "localhost|4000");
  EXPECT_EQ(Parsed("gpu-7.example", false), "gpu-7.example|18517");
  EXPECT_EQ(Parsed("[fe80::1%eth0]:65535", false), "fe80::1%eth0|65535");
}

TEST(TcpAddress, IsRefusedInAnyOtherForm) {
  for (const char* text : {"", ":", "host", "host:", "host:port", "fe80::1", "123456", "65536", ":4000"})
    EXPECT_THROW(ParseTcpAddress(text, true), std::invalid_argument) << text;
  for (const char* text : {"", ":4000", "host:", "host:port", "fe80::1:4000", "host:65536"})
    EXPECT_THROW(ParseTcpAddress(text, false), std::invalid_argument) << text;
}

}  // namespace
