// rdma_server and rdma_client as two processes, each on a software HCA of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "../two_sides.hpp"
#include "common/run_shell.hpp"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

struct Program {
  std::string options = "";
  std::string softhca_options = "";
};

const std::string kSmall = "-s 4096 ";

std::string Demonstrate(const Program& server, const Program& client) {
  return RunTwoSides(OnSofthca(server.softhca_options, RDMA_SERVER " -p 0 " + server.options),
                     OnSofthca(client.softhca_options, RDMA_CLIENT " 127.0.0.1 -p $port " + client.options));
}

testing::Matcher<std::string> BothSucceed() {
  return AllOf(HasSubstr("listener: All is well."), HasSubstr("connector: All is well."),
               HasSubstr("listener exits with 0"), HasSubstr("connector exits with 0"));
}

testing::Matcher<std::string> BothFail() {
  return AllOf(Not(HasSubstr("All is well.")), HasSubstr("listener exits with 1"),
               HasSubstr("connector exits with 1"));
}

TEST(RdmaPrograms, CarryFourMebibytesByDefault) {
  const std::string output = Demonstrate({}, {});
  EXPECT_THAT(output, BothSucceed());
  EXPECT_THAT(output, HasSubstr("connector:   send/receive 1    ok: sent 100 and on, received 200, 202 .. "
                                "2097350: all 1048576 integers are right\n"));
  EXPECT_THAT(output,
              HasSubstr("listener:   RDMA write        ok: wrote 4194304 bytes, with a notification\n"));
}

TEST(RdmaPrograms, TakeAGaudiByDefault) {
  const std::string output =
      RunTwoSides(OnSofthca("", RDMA_SERVER " -p 0", "LD_LIBRARY_PATH=" FAKE_GAUDI_FOLDER),
                  OnSofthca("", RDMA_CLIENT " localhost -p $port -m host"));
  EXPECT_THAT(output, BothSucceed());
  EXPECT_THAT(output,
              HasSubstr("listener:   memory            memory of gaudi:0000:33:00.0, 8388608 bytes at "
                        "0x1001001800000000, dma-buf fd "));
}

TEST(RdmaPrograms, DoubleOnTheHostWithoutAKernel) {
  const std::string output =
      RunTwoSides(OnSofthca("", RDMA_SERVER " -m cuda -p 0 " + kSmall, "LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER),
                  OnSofthca("", RDMA_CLIENT " 127.0.0.1 -p $port -m cuda:0 " + kSmall,
                            "LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER));
  EXPECT_THAT(output, BothSucceed());
  EXPECT_THAT(output,
              HasSubstr("listener:   doubled by        the processor, on a copy by the driver, because this "
                        "program has no kernel for memory of cuda:0\n"));
}

TEST(RdmaPrograms, RegisterMemoryWithoutAtomics) {
  const std::string output = Demonstrate({kSmall, "--no-atomics"}, {kSmall, "--no-atomics"});
  EXPECT_THAT(output, BothSucceed());
  EXPECT_THAT(output, HasSubstr("listener:   rights            local write, remote read, remote write\n"));
}

TEST(RdmaPrograms, TakeTheSmallerMtuAndTheGidOfTheOption) {
  const std::string output =
      Demonstrate({kSmall + "--gid-index 1", "--mtu 1024"}, {kSmall + "--gid-index 1", "--mtu 4096"});
  EXPECT_THAT(output, BothSucceed());
  EXPECT_THAT(output,
              AllOf(HasSubstr("connector:   path: to QP"), HasSubstr(", MTU 1024 (the minimum of both")));
  EXPECT_THAT(output, HasSubstr("GID 1 (as asked)"));
}

TEST(RdmaPrograms, SurviveLostPackets) {
  const std::string lossy = "--fault drop:3% --fault reorder:2%";
  EXPECT_THAT(Demonstrate({"-s 200000", lossy}, {"-s 200000", lossy}), BothSucceed());
}

TEST(RdmaPrograms, RefuseSizesOverTheLongestMessage) {
  const Result result = RunShell(OnSofthca("--max-message 4k", RDMA_CLIENT " 127.0.0.1 -s 4100"));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.output,
            "Cannot send 4100 bytes at a time: the longest message of mlx5_0 is 4096 bytes. Choose a smaller "
            "--size on both sides.\n");
}

/// A WQE that fails, and the resulting text.
struct Failure {
  const char* name;
  bool at_server;
  const char* fault;
  const char* step;  ///< row in the summary of the side where it fails
};

void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.name; }

// The client sends three times and then reads. The server answers three times and then writes. After a
// failure WQE indices start at 0 again.
const Failure kFailures[] = {
    {"RetriesOfTheFirstSend", false, "syndrome:0x15,index=0",
     "send/receive 1    failed: Cannot send 4096 bytes. The send queue of QP .* failed in the send at WQE "
     "index "
     "0: transport retries exceeded: the peer does not answer .syndrome 0x15,"},
    {"ReceiverNotReady", false, "syndrome:0x16,index=1",
     "send/receive 2    failed: .* failed in the send at WQE index 1: receiver-not-ready retries exceeded: "
     "the "
     "peer posted no receive .syndrome 0x16,"},
    {"LocalProtection", false, "syndrome:0x04,index=2,vendor=0x51",
     "send/receive 3    failed: .*: local protection error: .* .syndrome 0x04, vendor syndrome 0x51.\\. "
     "Check"},
    {"RetriesOfTheRead", false, "syndrome:0x15,index=3",
     "RDMA read         failed: Cannot read 4096 bytes by RDMA\\. .* failed in the RDMA read at WQE index "
     "3: "},
    {"RemoteOperationOfAnAnswer", true, "syndrome:0x14,index=0",
     "send/receive 1    failed: .* failed in the send at WQE index 0: remote operation error: "},
    {"LocalLengthOfAnAnswer", true, "syndrome:0x01,index=1",
     "send/receive 2    failed: .* failed in the send at WQE index 1: local length error: "},
    {"LocalOperationOfAnAnswer", true, "syndrome:0x02,index=2",
     "send/receive 3    failed: .* failed in the send at WQE index 2: local queue pair operation error: "},
    {"RemoteAccessOfTheWrite", true, "syndrome:0x13,index=3",
     "RDMA write        failed: Cannot write 4096 bytes by RDMA\\. .* failed in the RDMA write with "
     "immediate at "
     "WQE index 3: remote access error: "},
    {"UnknownSyndrome", true, "syndrome:0x7f,index=3",
     "RDMA write        failed: .*: unknown syndrome .syndrome "
     "0x7f,"},
};

class RdmaFailures : public testing::TestWithParam<Failure> {};

TEST_P(RdmaFailures, ReportOnBothSidesAndContinue) {
  const Failure& failure = GetParam();
  const std::string fault = std::string("--fault ") + failure.fault;
  const std::string options = kSmall + "-m host -t 1";  // the other side waits this long
  const std::string output =
      Demonstrate({options, failure.at_server ? fault : ""}, {options, failure.at_server ? "" : fault});
  EXPECT_THAT(output, BothFail());
  const std::string side = failure.at_server ? "listener" : "connector";
  EXPECT_THAT(output, testing::ContainsRegex("\n" + side + ":   " + failure.step));
  EXPECT_THAT(output,
              AllOf(HasSubstr("listener: Not all is well."), HasSubstr("connector: Not all is well.")));
  EXPECT_THAT(output, Not(HasSubstr("not done"))) << "later steps are run";
}

INSTANTIATE_TEST_SUITE_P(, RdmaFailures, testing::ValuesIn(kFailures),
                         [](const auto& failure) { return std::string(failure.param.name); });

TEST(RdmaPrograms, ReportARefusedReadAsUnsupported) {
  const std::string output = Demonstrate({kSmall}, {kSmall, "--fault syndrome:0x12,index=3"});
  EXPECT_THAT(output, BothSucceed());
  EXPECT_THAT(output,
              HasSubstr("connector:   RDMA read         unsupported: Cannot read 4096 bytes by RDMA. "));
}

TEST(RdmaPrograms, EndWhenTheServerDies) {
  // The server's answers are dropped, and it dies while it retries. A busy machine has connected both by
  // then.
  const std::string output =
      Demonstrate({kSmall, "--fault drop,sent,op=SEND_ONLY --fault kill,after=3s"}, {kSmall + "-t 5"});
  EXPECT_THAT(
      output,
      AllOf(HasSubstr("connector: send/receive 1\n"), HasSubstr("the peer closed the connection. "),
            HasSubstr("connector:   RDMA write        not done\n"), HasSubstr("connector: Not all is well."),
            HasSubstr("connector exits with 1"), HasSubstr("listener exits with 137")));
}

TEST(RdmaPrograms, EndWhenTheClientDies) {
  const std::string output =
      Demonstrate({kSmall + "-t 5"}, {kSmall, "--fault drop,sent,op=SEND_ONLY --fault kill,after=3s"});
  EXPECT_THAT(output,
              AllOf(HasSubstr("listener: send/receive 1\n"), HasSubstr("the peer closed the connection. "),
                    HasSubstr("listener: Not all is well."), HasSubstr("listener exits with 1"),
                    HasSubstr("connector exits with 137")));
}

TEST(RdmaPrograms, EndBeforeTheTimeoutWhenThePortLosesItsLink) {
  const std::string output = Demonstrate({kSmall + "-t 20", "--fault link-down,after=3s"},
                                         {kSmall + "-t 20", "--fault drop,sent,op=SEND_ONLY"});
  EXPECT_THAT(output, HasSubstr("Port 1 of mlx5_0 lost its link"));
  EXPECT_THAT(output, BothFail());
}

TEST(RdmaClient, ShowsItsUsageWithoutAServer) {
  const Result result = RunShell(RDMA_CLIENT);
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("name the host that the server runs on"), HasSubstr("Usage: "),
                                   HasSubstr("--port"), HasSubstr("--size")));
}

TEST(RdmaClient, GivesUpWithoutAServer) {
  const Result result = RunShell(OnSofthca("", RDMA_CLIENT " 127.0.0.1 -p 1 -w 1 " + kSmall));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, HasSubstr("Cannot connect to 127.0.0.1 port 1 within 1 s: Connection refused "
                                       "(ECONNREFUSED). Start the peer there, and check host and port."));
}

TEST(RdmaServer, GivesUpWithoutAClient) {
  const Result result = RunShell(OnSofthca("", RDMA_SERVER " -p 0 -w 1 " + kSmall));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_THAT(result.output, HasSubstr("no peer connected within 1 s. Start the peer with "));
}

TEST(RdmaServer, ReportsThatItsPortIsInUse) {
  const std::string output = RunTwoSides(OnSofthca("", RDMA_SERVER " -p 0 -w 10 " + kSmall),
                                         OnSofthca("", RDMA_SERVER " -p $port " + kSmall) + "; " +
                                             OnSofthca("", RDMA_CLIENT " 127.0.0.1 -p $port " + kSmall));
  EXPECT_THAT(
      output,
      HasSubstr("Address already in use (EADDRINUSE). Pass an address of this machine and a free port."));
}

TEST(RdmaPrograms, NameThePortThatIsDown) {
  for (const char* const program : {RDMA_SERVER " -p 0", RDMA_CLIENT " 127.0.0.1"}) {
    const Result result = RunShell(OnSofthca("--port-down all", program));
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_THAT(result.output, HasSubstr("no port is active (mlx5_0: port 1 is down)"));
  }
}

TEST(RdmaPrograms, HelpListsAllOptions) {
  for (const char* const program : {RDMA_SERVER, RDMA_CLIENT}) {
    for (const char* const option : {" -h", " --help"}) {
      const Result result = RunShell(std::string(program) + option);
      EXPECT_EQ(result.exit_status, 0);
      for (const char* const listed :
           {"-p,--port", "-d,--nic", "-s,--size", "-m,--memory", "--gid-index", "--rnr-retry", "-w,--wait",
            "-t,--timeout", "NCCL_IB_HCA", "(20000)", "(4194304)"})
        EXPECT_THAT(result.output, HasSubstr(listed));
    }
  }
}

TEST(RdmaPrograms, RefuseInvalidOptionsWithStatus2) {
  for (const char* const program : {RDMA_SERVER " ", RDMA_CLIENT " 127.0.0.1 "}) {
    for (const char* const options :
         {"--colour red", "-s 0",          "-s 3",          "-s 6",
          "-s -4",        "-s 4M",         "-s 1073741828", "-s 99999999999999999999",
          "-s",           "-p -1",         "-p 65536",      "-p many",
          "-m moon",      "-m cuda:",      "-m host:1",     "-m gaudi:33",
          "-d",           "--rnr-retry 8", "-w 0",          "-t 0",
          "-t 3601",      "stray fish"}) {
      const Result result = RunShell(std::string(program) + options);
      EXPECT_EQ(result.exit_status, 2) << program << options << "\n" << result.output;
      EXPECT_THAT(result.output, testing::EndsWith("; see --help\n"));
      EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    }
  }
  EXPECT_EQ(RunShell(RDMA_CLIENT " 127.0.0.1 --no-remote-read").exit_status, 2)
      << "only the server has this option";
  EXPECT_EQ(RunShell(RDMA_CLIENT " 127.0.0.1 -p 0").exit_status, 2) << "a client cannot connect to port 0";
}

TEST(RdmaPrograms, OpenTheNicOfTheirOption) {
  const std::string output =
      Demonstrate({kSmall + "-w 1 -d mlx5_1", "--devices 2"}, {kSmall + "-d mlx5_9", "--devices 2"});
  EXPECT_THAT(output, HasSubstr("listener:    by mlx5_1 (from the command line), "));
  EXPECT_THAT(output, HasSubstr("connector: Cannot open mlx5_9: "));
}

}  // namespace
