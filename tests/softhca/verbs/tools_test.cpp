#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "common/run_shell.hpp"

/// Tests the launcher, and Debian's own tools under it.
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Result Softhca(const std::string& arguments) { return RunShell(SOFTHCA_PATH " " + arguments); }

/// Counts the occurrences of `part`.
size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(IbvDevices, ListsOneDevice) {
  const Result outcome = Softhca("-- ibv_devices");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, ContainsRegex("mlx5_0[ \t]+[0-9a-f]{16}"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("mlx5_1")));
}

TEST(IbvDevices, ListsSeveralDevices) {
  const Result outcome = Softhca("--devices 2 -- ibv_devices");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, ContainsRegex("mlx5_0[ \t]+[0-9a-f]{16}"));
  EXPECT_THAT(outcome.output, ContainsRegex("mlx5_1[ \t]+[0-9a-f]{16}"));
}

TEST(IbvDevinfo, ShowsAnActiveEthernetPortWithRoceV2Gids) {
  const Result outcome = Softhca("-- ibv_devinfo -v");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("hca_id:\tmlx5_0"));
  EXPECT_THAT(outcome.output, ContainsRegex("state:[ \t]+PORT_ACTIVE"));
  EXPECT_THAT(outcome.output, ContainsRegex("link_layer:[ \t]+Ethernet"));
  EXPECT_THAT(outcome.output, ContainsRegex("active_mtu:[ \t]+4096"));
  EXPECT_THAT(outcome.output, ContainsRegex("vendor_id:[ \t]+0x02c9"));
  EXPECT_THAT(outcome.output, ContainsRegex("vendor_part_id:[ \t]+4129"));
  EXPECT_THAT(outcome.output, ContainsRegex("atomic_cap:[ \t]+ATOMIC_HCA"));
  EXPECT_THAT(outcome.output, ContainsRegex("GID\\[[ 0-9]+\\]:[^\n]*, RoCE v2"));
}

TEST(IbvDevinfo, ShowsAnInfiniBandPort) {
  const Result outcome = Softhca("--link infiniband -- ibv_devinfo -v");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, ContainsRegex("link_layer:[ \t]+InfiniBand"));
  EXPECT_THAT(outcome.output, Not(ContainsRegex("port_lid:[ \t]+0\n")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("RoCE")));
}

TEST(IbvDevinfo, ShowsAPortThatIsDown) {
  const Result outcome = Softhca("--devices 2 --port-down mlx5_1 -- ibv_devinfo");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(Count(outcome.output, "PORT_ACTIVE"), 1u);
  EXPECT_EQ(Count(outcome.output, "PORT_DOWN"), 1u);
  EXPECT_EQ(Count(Softhca("--port-down all -- ibv_devinfo").output, "PORT_ACTIVE"), 0u);
}

TEST(IbvDevinfo, ShowsThePortsMtu) {
  EXPECT_THAT(Softhca("--mtu 1024 -- ibv_devinfo").output, ContainsRegex("active_mtu:[ \t]+1024"));
}

TEST(IbvDevinfo, ShowsTwoPorts) {
  EXPECT_EQ(Count(Softhca("--ports 2 -- ibv_devinfo").output, "PORT_ACTIVE"), 2u);
}

TEST(IbvDevinfo, ShowsThePkeysOfAnInfiniBandPort) {
  const Result outcome =
      Softhca("--link infiniband -- sh -c 'cat /sys/class/infiniband/mlx5_0/ports/1/pkeys/*'");
  EXPECT_EQ(Count(outcome.output, "0x0000\n"), 127u);
  EXPECT_EQ(Count(outcome.output, "0xffff\n"), 1u);
}

TEST(Sysfs, DescribesThePciFunction) {
  const std::string function = "/sys/class/infiniband/mlx5_0/device";
  EXPECT_EQ(Softhca("-- cat " + function + "/class").output, "0x020000\n");
  EXPECT_EQ(Softhca("--link infiniband -- cat " + function + "/class").output, "0x020700\n");
  EXPECT_THAT(Softhca("--link infiniband -- cat " + function + "/uevent").output, HasSubstr("bc02sc07i00\n"));
  EXPECT_THAT(Softhca("-- readlink " + function + "/driver").output, HasSubstr("/mlx5_core\n"));
  EXPECT_THAT(Softhca("-- ls " + function + "/driver/ " + function + "/subsystem/").output,
              HasSubstr("devices"));
  EXPECT_THAT(Softhca("-- ls /sys/class/infiniband/mlx5_0/subsystem/").output, HasSubstr("mlx5_0"));
  EXPECT_EQ(Softhca("-- sh -c 'cd /sys/class/infiniband/mlx5_0/ports && ls'").output, "1\n");
}

TEST(Sysfs, RebuildsTheTreeForAProgramThatReplacesAFurtherProcess) {
  const std::string look = "read guid </sys/class/infiniband/mlx5_0/node_guid";
  const Result outcome =
      Softhca("-- bash -c '" + look + "; bash -c \"" + look + "; exec ibv_devices\"; true'");
  EXPECT_THAT(outcome.output, HasSubstr("mlx5_0"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("softhca:"))) << "the library must not complain";
}

TEST(Sysfs, ReportsTheLowestRateWithoutALink) {
  EXPECT_EQ(Softhca("--port-down all -- cat /sys/class/infiniband/mlx5_0/ports/1/rate").output,
            "40 Gb/sec (4X QDR)\n");
  EXPECT_THAT(Softhca("--port-down all -- ibv_devinfo -v").output,
              ContainsRegex("active_speed:[ \t]+10.0 Gbps"));
}

TEST(Launcher, HelpShowsItsOptions) {
  const Result outcome = Softhca("--help");
  EXPECT_EQ(outcome.exit_status, 0);
  for (const char* option : {"--devices",       "--ports",     "--link",        "--mtu",
                             "--port-down",     "--no-gids",   "--no-atomics",  "--big-endian-atomics",
                             "--no-user-index", "--no-wait",   "--devx-events", "--max-message",
                             "--fault",         "--log",       "--pcap",        "--stats",
                             "--trace",         "--interface", "--wire",        "--cable",
                             "--address",       "--no-direct", "--first-key"}) {
    EXPECT_THAT(outcome.output, HasSubstr(option));
  }
  EXPECT_THAT(outcome.output, Not(HasSubstr("INT in")));
}

TEST(Launcher, RefusesInvalidOptionsInOneSentence) {
  const Result unknown = Softhca("--colour red -- true");
  EXPECT_EQ(unknown.exit_status, 2);
  EXPECT_THAT(unknown.output, HasSubstr("--colour"));
  EXPECT_EQ(Count(unknown.output, "\n"), 1u);
  for (const char* arguments : {"--devices 0 -- true",
                                "--link token-ring -- true",
                                "--mtu 1500 -- true",
                                "--max-message 5000 -- true",
                                "--max-message -- true",
                                "--port-down mlx5_7 -- true",
                                "--fault flood -- true",
                                "--fault link-down,port=mlx5_7/1 -- true",
                                "--log loud -- true",
                                "--trace -- true",
                                "--interface no-such-if -- true",
                                "--interface lo --ports 2 -- true",
                                "--interface lo --interface lo --ports 2 -- true",
                                "--wire tin -- true",
                                "--cable a -- true",
                                "--cable a,b -- true",
                                "--address 10.0.0.1 -- true",
                                "--cable a,b --address 10.0.0 -- true",
                                "--cable a,b --address 10.0.0.1 --interface lo -- true",
                                "--cable a,b --address 10.0.0.1 --ports 2 -- true",
                                "--link infiniband --interface lo -- true",
                                "",
                                "true"}) {
    const Result outcome = Softhca(arguments);
    EXPECT_EQ(outcome.exit_status, 2) << arguments;
    EXPECT_EQ(Count(outcome.output, "\n"), 1u) << outcome.output;
  }
}

TEST(Launcher, NamesTheFileThatADeviceCannotWrite) {
  for (const char* option : {"--pcap", "--trace", "--log info,"}) {
    const std::string value = std::string(option).ends_with(',') ? "" : " ";
    const Result outcome = Softhca(option + value + "/no/such/folder/file -- ibv_devinfo");
    EXPECT_THAT(outcome.output, HasSubstr("/no/such/folder/file")) << option;
    EXPECT_NE(outcome.exit_status, 0);
  }
}

TEST(Launcher, ReportsAMissingNetworkOnce) {
  const Result outcome =
      Softhca("--cable /no/such/folder/a,b --address 10.79.0.1 -- sh -c 'exec 3</dev/infiniband/rdma_cm'");
  EXPECT_EQ(Count(outcome.output, "/no/such/folder/a"), 1u) << outcome.output;
  EXPECT_NE(outcome.exit_status, 0);
}

TEST(Launcher, TakesLinksDownAtOnceOrLater) {
  EXPECT_THAT(Softhca("--fault link-down -- ibv_devinfo").output, HasSubstr("PORT_DOWN"));
  EXPECT_THAT(Softhca("--fault link-down,after=1000s -- ibv_devinfo").output, HasSubstr("PORT_ACTIVE"));
}

TEST(Launcher, PrintsOrWritesStats) {
  EXPECT_THAT(Softhca("--stats -- ibv_devinfo").output, HasSubstr("softhca: mlx5_0: qp: 0 exist, 0 created"));
  const std::string file = testing::TempDir() + "stats." + std::to_string(getpid());
  EXPECT_THAT(Softhca("--stats=" + file + " -- ibv_devinfo").output, Not(HasSubstr("created")));
  EXPECT_THAT(RunShell("cat " + file).output, HasSubstr("\"devices\""));
  std::filesystem::remove(file);
}

TEST(Launcher, LetsCudaLoadKernelsAtTheStartUnlessTheUserHasChosen) {
  EXPECT_EQ(Softhca("-- sh -c 'echo $CUDA_MODULE_LOADING'").output, "EAGER\n");
  EXPECT_EQ(RunShell("CUDA_MODULE_LOADING=LAZY " SOFTHCA_PATH " -- sh -c 'echo $CUDA_MODULE_LOADING'").output,
            "LAZY\n");
}

TEST(Launcher, LogsRefusedCommands) {
  EXPECT_THAT(Softhca("--log warning -- ibv_rc_pingpong -i 5 localhost").output,
              HasSubstr("MODIFY_QP refused (EINVAL): queue pair 257: port 5 does not exist"));
}

TEST(Launcher, RunsUnderALimitOnFileSizes) {
  const Result outcome = RunShell("(ulimit -f 64; " SOFTHCA_PATH " -- ibv_devinfo)");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("PORT_ACTIVE"));
}

/// Returns a TCP port that no socket has.
std::string FreePort() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t bytes = sizeof address;
  const bool known = bind(probe, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  close(probe);
  EXPECT_TRUE(known);
  return std::to_string(ntohs(address.sin_port));
}

/// Returns a command that runs ibv_rc_pingpong's two sides. The client tries again until the server listens.
std::string PingPong(const std::string& iterations) {
  const std::string side = "ibv_rc_pingpong -g 3 -p " + FreePort() + " -n " + iterations;
  return "sh -c '" + side + " & for i in $(seq 60); do sleep 1; " + side + " localhost && break; done; wait'";
}

TEST(Launcher, EndsAFileAtTheLimitOnFileSizesAndGoesOn) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("limited." + std::to_string(getpid()));
  fs::create_directories(folder);
  const Result outcome = RunShell("(ulimit -f 64; " SOFTHCA_PATH " --trace " + (folder / "%p").string() +
                                  " -- " + PingPong("500") + ")");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
  EXPECT_EQ(Count(outcome.output, "500 iters"), 2u) << outcome.output;
  EXPECT_EQ(Count(outcome.output, " ends here, the rest is lost: File too large"), 2u) << outcome.output;
  fs::remove_all(folder);
}

TEST(Launcher, GoesOnIfNobodyReadsTheLog) {
  const std::string pipe = testing::TempDir() + "unread." + std::to_string(getpid());
  const Result outcome =
      RunShell("mkfifo " + pipe + "; exec 3<>" + pipe + "; timeout 100 " SOFTHCA_PATH " --log trace -- " +
               PingPong("500") + " 2>&3; echo exit $?");
  EXPECT_THAT(outcome.output, HasSubstr("exit 0"));
  EXPECT_EQ(Count(outcome.output, "500 iters"), 2u) << outcome.output;
  std::filesystem::remove(pipe);
}

TEST(Launcher, ReturnsTheProgramsExitStatus) {
  EXPECT_EQ(Softhca("-- true").exit_status, 0);
  EXPECT_EQ(Softhca("-- sh -c 'exit 7'").exit_status, 7);
  EXPECT_EQ(Softhca("-- sh -c 'kill -KILL $$'").exit_status, 137);
  EXPECT_EQ(Softhca("-- /no/such/program").exit_status, 127);
  EXPECT_EQ(Softhca("-- /etc/passwd").exit_status, 126);
  EXPECT_EQ(RunShell("env --ignore-signal=CHLD " SOFTHCA_PATH " -- sh -c 'exit 7'").exit_status, 7);
}

TEST(Launcher, ForwardsSignalsAndLeavesNothingBehind) {
  for (const int signal :
       {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGVTALRM, SIGRTMIN}) {
    const std::string kill = "kill -" + std::to_string(signal) + " $PPID";
    const Result outcome = Softhca("-- sh -c 'ulimit -c 0; echo $SYSFS_PATH; " + kill + "; exec sleep 600'");
    EXPECT_EQ(outcome.exit_status, 128 + signal);
    const std::string folder = outcome.output.substr(0, outcome.output.find('\n'));
    EXPECT_THAT(folder, HasSubstr("softhca."));
    EXPECT_FALSE(std::filesystem::exists(folder)) << folder;
  }
}

TEST(Launcher, RemovesTheFoldersOfKilledLaunchersOnly) {
  namespace fs = std::filesystem;
  const fs::path parent = fs::path(testing::TempDir()) / ("folders." + std::to_string(getpid()));
  const fs::path other = parent / "softhca.output", empty = parent / "softhca.empty0";
  const fs::path early = parent / "softhca.early0";
  fs::create_directories(other / "results");
  fs::create_directories(empty);
  fs::permissions(empty, fs::perms::owner_all | fs::perms::group_read);  // whatever the umask
  ASSERT_EQ(mkdir(early.c_str(), 0700), 0);  // its launcher was killed before it locked the folder
  const std::string start = "TMPDIR=" + parent.string() + " " SOFTHCA_PATH " -- ";
  // The folders of a launcher that may just be starting are left alone.
  const std::string again = "touch -d yesterday " + parent.string() +
                            "/softhca.*; env -u LD_PRELOAD -u SOFTHCA_SETTINGS -u SYSFS_PATH " + start +
                            "true";
  const auto folders = [&] {
    return std::distance(fs::directory_iterator(parent), fs::directory_iterator());
  };
  RunShell(start + "sh -c 'kill -KILL $PPID'");
  EXPECT_EQ(folders(), 4);
  EXPECT_EQ(Softhca("-- true").exit_status, 0);  // another TMPDIR
  EXPECT_EQ(folders(), 4);
  EXPECT_EQ(RunShell(start + "true").exit_status, 0);
  EXPECT_EQ(folders(), 4) << "they are too young";
  EXPECT_EQ(RunShell(again).exit_status, 0);
  EXPECT_EQ(folders(), 2);
  const Result alone = RunShell(start + "sh -c 'kill -KILL $PPID; " + again + "; ibv_devices'");
  EXPECT_THAT(alone.output, HasSubstr("mlx5_0")) << "the program lives, so its devices must, too";
  const Result beside = RunShell(start + "sh -c '" + again + "; ibv_devices'");
  EXPECT_THAT(beside.output, HasSubstr("mlx5_0"));
  RunShell(again);
  EXPECT_EQ(folders(), 2);
  EXPECT_TRUE(fs::exists(other / "results"));
  EXPECT_TRUE(fs::exists(empty)) << "nothing shows that a launcher created it";
  fs::remove_all(parent);
}

TEST(Launcher, NamesTheFolderThatItCannotUse) {
  const Result outcome = RunShell("TMPDIR=/no/such/folder " SOFTHCA_PATH " -- true");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("TMPDIR"), HasSubstr("/no/such/folder")));
}

TEST(Launcher, RunsFromAFolderWithASpace) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("soft hca " + std::to_string(getpid()));
  fs::create_directories(folder);
  for (const fs::path& file :
       {fs::path(SOFTHCA_PATH), fs::path(SOFTHCA_PATH).replace_filename("libsofthca.so")})
    fs::copy(file, folder, fs::copy_options::overwrite_existing);
  const std::string launcher = "'" + (folder / "softhca").string() + "' -- ibv_devices";
  EXPECT_THAT(RunShell(launcher).output, HasSubstr("mlx5_0"));
  const Result nowhere = RunShell("TMPDIR='" + folder.string() + "' " + launcher);
  EXPECT_EQ(nowhere.exit_status, 1);
  EXPECT_THAT(nowhere.output, HasSubstr("space"));
  fs::remove_all(folder);
}

TEST(Launcher, WarnsOfSetUidPrograms) {
  if (getuid() == 0 || access("/usr/bin/passwd", X_OK) != 0)
    GTEST_SKIP() << "needs a set-uid program that is not ours";
  EXPECT_THAT(Softhca("-- passwd --help").output, HasSubstr("set-uid"));
}

}  // namespace
