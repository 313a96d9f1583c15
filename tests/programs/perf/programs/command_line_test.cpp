#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "common/dead_client.hpp"
#include "runs.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

/// The output and exit status of runs that fail or miss a threshold.
namespace {

using testing::HasSubstr;

TEST(Perf, NamesAMissingGpuOfTheClientOnBothSides) {
  for (const char* const options :
       {"--use_cuda=7", "--use_cuda_bus_id=99:00.0", "--use_rocm=0", "--use_hl=any"}) {
    const PerfPair pair = RunPerfPair("-n 10", std::string("-n 10 ") + options, "", "",
                                      "LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER " WARPVERBS_FAKE_CUDA=gpus=2");
    EXPECT_EQ(pair.client_status, 1) << options;
    EXPECT_EQ(pair.server_status, 1) << options;
    EXPECT_THAT(pair.client, testing::ContainsRegex("warpverbs-perf: Cannot [^\n]+: [^\n]+\\. [^\n]+\\.\n"))
        << options;
    EXPECT_THAT(pair.server, HasSubstr("The peer failed: Cannot ")) << options;
  }
}

/// No client ever comes: a program that waited for one first would run into the limit.
TEST(Perf, ReportsBeforeItWaitsWhatDoesNotExistHere) {
  for (const char* const options :
       {"-x 77", "--use_cuda=7", "--use_hl=any", "--use_rocm=0", "--pkey_index 60000"}) {
    const Result outcome = RunShell(
        std::string("env LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER " timeout 60 " SOFTHCA " -- " PERF " -p 0 ") +
        options);
    EXPECT_EQ(outcome.exit_status, 1) << options;
    EXPECT_THAT(outcome.output, HasSubstr("warpverbs-perf: Cannot ")) << options;
    EXPECT_THAT(outcome.output, testing::Not(HasSubstr("Waiting for client"))) << options;
  }
}

TEST(Perf, GivesUpWaitingForAClientAtTheTimeout) {
  const Result outcome = RunShell("timeout 60 " SOFTHCA " -- " PERF " -p 0 --timeout 1");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, testing::ContainsRegex("no peer connected within [0-9.]+ s"));
}

/// Runs a server and, once it listens on $port, other connections and then its client.
///
/// @param others  commands for bash
/// @return        the server's output and status; status 8: the client failed, 9: the server ended early
Result RunServerWithOthers(const std::string& others) {
  const std::string perf = "timeout 100 " SOFTHCA " -- " PERF " -n 100 -p ";
  return RunShell(
      "(bash /dev/fd/3 3<<'END'\n"
      "log=$(mktemp); " +
      perf +
      "0 >$log 2>&1 & server=$!\n"
      "until port=$(sed -n 's/.*listening on port //p' $log) && [ -n \"$port\" ]; do\n"
      "  kill -0 $server || exit 9; sleep 0.05; done\n" +
      others + perf +
      "$port 127.0.0.1 || exit 8\n"
      "wait $server; status=$?; cat $log; rm $log; exit $status\n"
      "END\n)");
}

/// Something scans the port, something else speaks HTTP, and a third connection is silent.
TEST(Perf, ServesItsClientAfterStrangers) {
  const Result outcome = RunServerWithOthers(
      "exec 5<>/dev/tcp/127.0.0.1/$port 6<>/dev/tcp/127.0.0.1/$port 7<>/dev/tcp/127.0.0.1/$port 7<&-\n"
      "echo 'GET / HTTP/1.1' >&5\n");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("refused because it "));
}

TEST(Perf, ServesItsClientAfterOneThatDied) {
  const Result outcome = RunServerWithOthers(kDeadClient);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("warpverbs-perf: not a client: Cannot swap its version with 127.0.0.1"));
}

TEST(Perf, NamesTheOptionThatDiffersOnBothSides) {
  const PerfPair pair = RunPerfPair("-s 4096", "-s 1024");
  EXPECT_EQ(pair.client_status, 1);
  EXPECT_EQ(pair.server_status, 1);
  EXPECT_THAT(pair.client,
              HasSubstr("The sides differ in -s: 1024 here, 4096 at the peer. Give both sides the same."));
  EXPECT_THAT(pair.server,
              HasSubstr("The sides differ in -s: 4096 here, 1024 at the peer. Give both sides the same."));
}

TEST(Perf, ExitsWith1WhenAThresholdIsMissed) {
  const PerfPair slow = RunPerfPair("-n 50", "-n 50 --min-bw 1e9");
  EXPECT_EQ(slow.client_status, 1);
  EXPECT_EQ(slow.server_status, 0);
  EXPECT_THAT(slow.client, HasSubstr("below the 1e+09 of --min-bw"));
  EXPECT_EQ(RunPerfPair("-n 50", "-n 50 --min-bw 0.001").client_status, 0);
  const PerfPair all = RunPerfPair("-a -n 5", "-a -n 5 --min-bw 1e9");  // every row is judged
  EXPECT_EQ(all.client_status, 1);
  for (const char* const size : {" 2 bytes", " 8388608 bytes"})
    EXPECT_THAT(all.client, HasSubstr("The average bandwidth of" + std::string(size)));
  EXPECT_EQ(RunPerfPair("-a -n 5", "-a -n 5 --min-bw 1e-6").client_status, 0);
  const PerfPair late = RunPerfPair("--measure latency -n 50", "--measure latency -n 50 --max-p99 0.001");
  EXPECT_EQ(late.client_status, 1);
  EXPECT_THAT(late.client, HasSubstr("of --max-p99"));
}

TEST(Perf, ReportsThatNoServerListens) {
  const Result outcome = RunShell(SOFTHCA " -- " PERF " --timeout 1 -p 1 127.0.0.1");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("warpverbs-perf: Cannot "));
}

TEST(Perf, ChecksTheReportFileBeforeItConnects) {
  // No server listens on this port: a program that connected first would report that.
  for (const auto& [file, why] : {std::pair<std::string, const char*>{"/no/such/x.json", "No such file"},
                                  {testing::TempDir(), "Is a directory"}}) {
    const Result outcome =
        RunShell(SOFTHCA " -- " PERF " --timeout 1 -p 1 --out_json_file=" + file + " 127.0.0.1");
    EXPECT_EQ(outcome.exit_status, 1);
    EXPECT_THAT(outcome.output, HasSubstr("warpverbs-perf: Cannot write " + file + ": " + why));
  }
}

TEST(Perf, KeepsTheReportFileWhenNothingIsMeasured) {
  const std::string file = TemporaryFile("kept.json");
  std::ofstream(file) << "kept";
  RunShell(SOFTHCA " -- " PERF " --timeout 1 -p 1 --out_json_file=" + file + " 127.0.0.1");
  EXPECT_EQ(ReadFile(file), "kept");
  std::filesystem::remove(file);
}

TEST(Perf, RejectsAPeerThatIsNotPerf) {
  using namespace warpverbs::host;
  const TcpListener listener;
  const std::jthread stranger([&] {
    try {
      TcpExchange exchange = listener.Accept(DeadlineIn(std::chrono::seconds(60)));
      const uint8_t words[] = {'h', 'e', 'l', 'l', 'o'};
      exchange.Swap(words, "a greeting", DeadlineIn(std::chrono::seconds(60)));
    } catch (const std::exception&) {  // the client may close the connection at once
    }
  });
  const Result outcome =
      RunShell(SOFTHCA " -- " PERF " -p " + std::to_string(listener.port()) + " 127.0.0.1");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("is not warpverbs-perf of this version"));
}

TEST(Perf, NamesAMissingDeviceOrPort) {
  EXPECT_THAT(RunShell(SOFTHCA " -- " PERF " -d mlx5_7").output, HasSubstr("no ConnectX has that name"));
  const Result down = RunShell(SOFTHCA " --port-down all -- " PERF);
  EXPECT_EQ(down.exit_status, 1);
  EXPECT_THAT(down.output, HasSubstr("warpverbs-perf: Cannot "));
}

TEST(Perf, RejectsAtomicsThatTheDeviceLacks) {
  const Result outcome = RunShell(SOFTHCA " --no-atomics -- " PERF " --test atomic");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("the device does not support them"));
}

TEST(Perf, RejectsAnMtuAboveThePorts) {
  const PerfPair pair = RunPerfPair("-n 10", "-n 10 -m 4096", "--mtu 1024");
  EXPECT_EQ(pair.client_status, 1);
  EXPECT_THAT(pair.client, HasSubstr("Cannot use an MTU of 4096 (-m): the ports support 1024"));
}

TEST(Perf, ReportsMissingKernels) {
  const PerfPair pair = RunPerfPair("-n 10", "-n 10 --initiator gpu");
  EXPECT_EQ(pair.client_status, 1);
  EXPECT_THAT(pair.client, testing::ContainsRegex("Cannot (post from a GPU|load|use)[^\n]+\\.\n"));
  EXPECT_THAT(pair.server, HasSubstr("The peer failed: Cannot "));
}

}  // namespace
