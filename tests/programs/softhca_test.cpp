#include <gmock/gmock.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/dead_client.hpp"
#include "common/run_shell.hpp"
#include "golden.hpp"

/// Runs of warpverbs-doctor and warpverbs-info, with and without softhca.
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Options that skip checks whose verdicts depend on the hardware below softhca or on the user.
constexpr char kSteady[] =
    " --skip "
    "rdma-core,memlock,ipc-lock,shm,gpu-modules,peer-mapping,dma-buf,gpu-memory,doorbell,acs,iommu,distance,"
    "peer";

Result OnSofthca(const std::string& options, const std::string& program) {
  return RunShell(SOFTHCA " " + options + " -- " + program);
}

void ExpectDoctor(const std::string& name, const std::string& softhca, int exit_code) {
  const Result text = OnSofthca(softhca, std::string(DOCTOR) + kSteady);
  EXPECT_TRUE(golden::MatchesFile("softhca_" + name + ".txt", text.output));
  EXPECT_EQ(text.exit_status, exit_code);
  const Result json = OnSofthca(softhca, std::string(DOCTOR " --json") + kSteady);
  EXPECT_TRUE(golden::MatchesFile("softhca_" + name + ".json", json.output));
  EXPECT_EQ(json.exit_status, exit_code);
}

TEST(Doctor, PassesOnSofthca) { ExpectDoctor("ok", "", 0); }

TEST(Doctor, FailsWithAllPortsDown) { ExpectDoctor("port_down", "--port-down all", 3); }

TEST(Doctor, WarnsOfOnePortDown) {
  const Result outcome = OnSofthca("--ports 2 --port-down mlx5_0/2", DOCTOR " --only link,loopback");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("mlx5_0 port 2 is down"));
}

TEST(Doctor, ReportsAFailedTransfer) {
  const Result outcome = OnSofthca("--fault syndrome:0x13,index=0", DOCTOR " --only loopback");
  EXPECT_EQ(outcome.exit_status, 3);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("FAIL  loopback"), HasSubstr("remote access error")));
}

TEST(Doctor, TimesOutOnALostPacket) {
  const Result outcome = OnSofthca("--no-direct --fault drop", DOCTOR " --only loopback --json");
  EXPECT_EQ(outcome.exit_status, 3) << outcome.output;
}

/// Returns a command that runs another one with a low limit on locked memory.
std::string WithoutIpcLock(const std::string& command) {
  const std::string limited = "ulimit -l 512; exec " + command;
  return (geteuid() == 0 ? "setpriv --bounding-set=-ipc_lock " : "") + ("sh -c '" + limited + "'");
}

TEST(Doctor, FailsWithALowLimitOnLockedMemory) {
  const Result text = OnSofthca("", WithoutIpcLock(DOCTOR " --only memlock,loopback"));
  EXPECT_TRUE(golden::MatchesFile("softhca_memlock.txt", text.output));
  EXPECT_EQ(text.exit_status, 3);
  const Result json = OnSofthca("", WithoutIpcLock(DOCTOR " --json --only memlock,loopback"));
  EXPECT_TRUE(golden::MatchesFile("softhca_memlock.json", json.output));
}

TEST(Doctor, ProbesGpusOverSofthca) {
  const std::string gpus = "env LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER " WARPVERBS_FAKE_CUDA=gpus=2,uar_plain=";
  const std::string checks = " --only dma-buf,gpu-memory,doorbell";
  const Result reached = OnSofthca("", gpus + "1 " DOCTOR + checks);
  EXPECT_TRUE(golden::MatchesFile("softhca_gpus.txt", reached.output));
  EXPECT_EQ(reached.exit_status, 0);
  const Result unreached = OnSofthca("", gpus + "0 " DOCTOR + checks);
  EXPECT_EQ(unreached.exit_status, 1) << unreached.output;
  EXPECT_THAT(unreached.output, HasSubstr("a host thread rings instead of its kernels"));
}

TEST(Doctor, FailsWithoutAGidAndNamesTheRemedy) {
  const Result doctor = OnSofthca("--no-gids", DOCTOR " --only gid,loopback");
  EXPECT_EQ(doctor.exit_status, 3);
  EXPECT_THAT(doctor.output,
              AllOf(HasSubstr("FAIL  gid       mlx5_0 port 1 has no GID\n"),
                    HasSubstr("Give the network interface an IP address that the peers can reach"),
                    HasSubstr("FAIL  loopback"), HasSubstr("its GID table is empty")));
  EXPECT_THAT(OnSofthca("--no-gids", DOCTOR " --only loopback --gid-index 3").output,
              HasSubstr("its GID table is empty"));
  const Result info = OnSofthca("--no-gids", INFO);
  EXPECT_EQ(info.exit_status, 0) << "info does not check";
  EXPECT_THAT(info.output, HasSubstr("mlx5_0"));
}

TEST(Doctor, PrintsValidJsonOfEveryCheck) {
  for (const std::string& program : {std::string(DOCTOR), std::string(SOFTHCA " -- " DOCTOR)}) {
    const Result outcome = RunShell(program + " --json 2>/dev/null");
    const auto report = nlohmann::json::parse(outcome.output);
    EXPECT_EQ(report["version"], 1);
    const Result list = RunShell(DOCTOR " --list");
    for (const auto& check : report["checks"]) {
      EXPECT_THAT(list.output, HasSubstr(check["id"].get<std::string>() + " "));
      const bool bad = check["verdict"] == "WARN" || check["verdict"] == "FAIL";
      EXPECT_EQ(check["remedy"].get<std::string>().empty(), !bad) << check;
      EXPECT_FALSE(check["found"].get<std::string>().empty()) << check;
    }
  }
}

TEST(Doctor, ChecksTheGivenDevice) {
  const Result named = OnSofthca("--devices 2", DOCTOR " --only nics --device mlx5_1");
  EXPECT_THAT(named.output, AllOf(HasSubstr("mlx5_1"), testing::Not(HasSubstr("mlx5_0"))));
  const Result missing = OnSofthca("", DOCTOR " --only nics --device mlx5_7");
  EXPECT_EQ(missing.exit_status, 3);
  EXPECT_THAT(missing.output, HasSubstr("Name one of: mlx5_0."));
}

TEST(Doctor, DoesNotColourAFile) {
  EXPECT_THAT(RunShell(DOCTOR " --only nics").output, testing::Not(HasSubstr("\033")));
}

TEST(Doctor, NamesExitStatusesInHelp) {
  const Result help = RunShell(DOCTOR " --help");
  EXPECT_EQ(help.exit_status, 0);
  for (const char* const part :
       {"--json", "--list", "--only", "--skip", "--device", "Exit status:", "NO_COLOR"})
    EXPECT_THAT(help.output, HasSubstr(part));
}

TEST(Programs, RefuseACommandLineInOneSentence) {
  for (const char* const command :
       {DOCTOR " --colour", DOCTOR " --only", DOCTOR " --only no-such-check",
        DOCTOR " --skip gid,no-such-check", DOCTOR " mlx5_0", DOCTOR " --device", DOCTOR " --peer",
        DOCTOR " --peer :7", DOCTOR " --listen x", DOCTOR " --listen --peer there", INFO " --only gid",
        INFO " mlx5_0", INFO " --device", INFO " --gid-index x", DOCTOR " --service-level 16"}) {
    const Result outcome = RunShell(command);
    EXPECT_EQ(outcome.exit_status, 2) << command;
    EXPECT_THAT(outcome.output,
                ContainsRegex("^warpverbs-[a-z]+: [^\n]+\\. See warpverbs-[a-z]+ --help\\.\n$"));
  }
}

TEST(Programs, UseTheVariablesOfNccl) {
  const std::string nccl = "env NCCL_IB_HCA==mlx5_1:1 NCCL_IB_GID_INDEX=1 NCCL_IB_TC=0x6a NCCL_IB_SL=5 ";
  const std::string chosen =
      "mlx5_1 port 1 (from NCCL_IB_HCA==mlx5_1:1), GID 1 (from NCCL_IB_GID_INDEX=1), traffic class 106 (from "
      "NCCL_IB_TC=0x6a), service level 5 (from NCCL_IB_SL=5)";
  const Result doctor = OnSofthca("--devices 2", nccl + DOCTOR " --only nics,choice,loopback");
  EXPECT_EQ(doctor.exit_status, 0);
  EXPECT_THAT(doctor.output,
              AllOf(HasSubstr("PASS  choice    " + chosen + "\n"),
                    HasSubstr("mlx5_1 port 1: 65536 bytes written"), testing::Not(HasSubstr("mlx5_0"))));
  const Result info = OnSofthca("--devices 2", nccl + INFO);
  EXPECT_EQ(info.exit_status, 0);
  EXPECT_THAT(info.output, AllOf(HasSubstr("Choice\n  " + chosen + "\n"), testing::Not(HasSubstr("mlx5_0"))));
}

TEST(Programs, PreferTheCommandLineToTheVariablesOfNccl) {
  const std::string nccl = "env NCCL_IB_HCA=mlx5_1 NCCL_IB_GID_INDEX=1 NCCL_IB_TC=106 NCCL_IB_SL=5 ";
  const std::string options = " --device mlx5_0 --gid-index 3 --traffic-class 0 --service-level 2";
  const std::string chosen =
      "mlx5_0 port 1 (from the command line), GID 3 (from --gid-index), traffic class 0 (from "
      "--traffic-class), "
      "service level 2 (from --service-level)\n";
  EXPECT_THAT(OnSofthca("--devices 2", nccl + DOCTOR " --only choice" + options).output, HasSubstr(chosen));
  EXPECT_THAT(OnSofthca("--devices 2", nccl + INFO + options).output, HasSubstr(chosen));
}

TEST(Programs, NameMissingDevicesOfTheVariablesOfNccl) {
  const Result gid = OnSofthca("", "env NCCL_IB_GID_INDEX=77 " DOCTOR " --only choice,loopback");
  EXPECT_EQ(gid.exit_status, 3);
  EXPECT_THAT(gid.output, AllOf(HasSubstr("FAIL  choice"), HasSubstr(": mlx5_0 port 1 has no GID 77\n"),
                                HasSubstr("FAIL  loopback")));
  const Result nic = OnSofthca("", "env NCCL_IB_HCA=mlx5_9 " DOCTOR " --only nics,choice");
  EXPECT_EQ(nic.exit_status, 3);
  EXPECT_THAT(nic.output, HasSubstr("FAIL  nics    NCCL_IB_HCA=mlx5_9 allows none of mlx5_0\n"));
  EXPECT_EQ(OnSofthca("", "env NCCL_IB_HCA=mlx5_9 " INFO).exit_status, 1);
}

TEST(Programs, RejectABadVariableOfNccl) {
  for (const std::string program : {DOCTOR, INFO}) {
    const Result outcome = RunShell("env NCCL_IB_TC=300 " + program);
    EXPECT_EQ(outcome.exit_status, 2);
    EXPECT_THAT(
        outcome.output,
        ContainsRegex("^warpverbs-[a-z]+: Cannot use NCCL_IB_TC=300: a traffic class is a number from 0 "
                      "to 255. Set it to a number from 0 to 255, or unset it.\n$"));
    const Result help = RunShell("env NCCL_IB_TC=300 " + program + " --help");
    EXPECT_EQ(help.exit_status, 0);
    EXPECT_THAT(help.output, AllOf(HasSubstr("NCCL_IB_HCA, NCCL_IB_GID_INDEX,\nNCCL_IB_TC and NCCL_IB_SL."),
                                   HasSubstr("--gid-index INDEX")));
  }
}

/// Runs two doctors, each on its own softhca, and returns their outputs and exit statuses.
///
/// @param before  shell commands to run before the visitor; they have the port as $port
std::string TestPeersOnSofthca(const std::string& listener, const std::string& visitor,
                               const std::string& before = "") {
  const std::string doctor = " -- " DOCTOR " --only peer ", start = "timeout -s KILL 90 " SOFTHCA " ";
  return RunShell("folder=$(mktemp -d); trap 'rm -r $folder' EXIT; : >$folder/listener\n" + start + listener +
                  doctor +
                  "--listen 0 >$folder/listener 2>&1 & listener=$!\n"
                  "for _ in $(seq 400); do\n"
                  "  port=$(sed -n 's/.*listening on port //p' $folder/listener)\n"
                  "  [ -z \"$port\" ] || break; sleep 0.05\n"
                  "done\n" +
                  before + start + visitor + doctor + "--peer 127.0.0.1:$port; echo visitor exits with $?\n" +
                  "wait $listener; echo listener exits with $?; cat $folder/listener")
      .output;
}

TEST(Doctor, ExchangesDataWithAnotherDoctor) {
  EXPECT_TRUE(golden::MatchesFile("softhca_peer.txt", TestPeersOnSofthca("", "")));
}

TEST(Doctor, ServesTheVisitorAfterOneThatDied) {
  EXPECT_THAT(
      TestPeersOnSofthca("", "", kDeadClient),
      AllOf(HasSubstr("visitor exits with 0"), HasSubstr("listener exits with 0"),
            HasSubstr("warpverbs-doctor: not a client: Cannot swap its endpoint with 127.0.0.1 port ")));
}

TEST(Doctor, FailsOnBothSidesWhenOneCannotWrite) {
  const std::string output = TestPeersOnSofthca("--fault syndrome:0x13,index=0", "");
  EXPECT_THAT(output, AllOf(HasSubstr("visitor exits with 3"), HasSubstr("listener exits with 3"),
                            HasSubstr("on the peer: "), HasSubstr("remote access error")));
}

TEST(Doctor, FailsOnBothSidesWithDifferentLinkLayers) {
  const std::string output = TestPeersOnSofthca("--link infiniband", "");
  EXPECT_THAT(output, AllOf(HasSubstr("visitor exits with 3"), HasSubstr("listener exits with 3")));
}

TEST(Info, ShowsSofthca) {
  const Result text = OnSofthca("--devices 2 --port-down mlx5_1", INFO " --device mlx5_1");
  EXPECT_TRUE(golden::MatchesFile("softhca_info.txt", text.output));
  EXPECT_EQ(text.exit_status, 0);
  const Result json = OnSofthca("--devices 2 --port-down mlx5_1", INFO " --json --device mlx5_1");
  EXPECT_TRUE(golden::MatchesFile("softhca_info.json", json.output));
}

TEST(Info, ReportsAMissingDevice) {
  const Result outcome = OnSofthca("", INFO " --device mlx5_7 2>&1 >/dev/null");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(outcome.output, "Cannot open mlx5_7: no ConnectX has that name. Name one of: mlx5_0.\n");
}

}  // namespace
