#include <gmock/gmock.h>

#include <stdexcept>
#include <tuple>

#include "doctor/check.hpp"
#include "doctor/peer_test.hpp"
#include "fake_machine.hpp"
#include "warpverbs/host/error.hpp"

/// Cases of single checks that the golden reports do not cover.
namespace warpverbs::programs {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

TEST(CheckMemlock, FailsBelowTheNeedsOfQueuesAndWarnsBelowThoseOfData) {
  GoodMachine good;
  for (const auto& [limit, verdict] : {std::pair{kMiB - 1, Verdict::kFail},
                                       {kMiB, Verdict::kWarn},
                                       {1024 * kMiB - 1, Verdict::kWarn},
                                       {1024 * kMiB, Verdict::kPass},
                                       {kUnlimited, Verdict::kPass}}) {
    good.machine.process.locked_bytes = limit;
    EXPECT_EQ(CheckMemlock(good.machine).verdict, verdict) << limit;
  }
}

TEST(CheckMemlock, PassesOnlyWithTheCapabilityInTheInitialNamespace) {
  GoodMachine good;
  good.machine.process.locked_bytes = 65536;
  good.tree.Write("/proc/self/status", "CapEff:\t0000000000004000\n");
  EXPECT_EQ(CheckMemlock(good.machine).verdict, Verdict::kPass);
  good.tree.Write("/proc/self/uid_map", "         0     100000      65536\n");
  EXPECT_EQ(CheckMemlock(good.machine).verdict, Verdict::kFail);
}

TEST(CheckIpcLock, WarnsInAContainerWithALowLimit) {
  GoodMachine good;
  EXPECT_EQ(CheckIpcLock(good.machine).verdict, Verdict::kSkip);
  good.machine.process.locked_bytes = 65536;
  EXPECT_EQ(CheckIpcLock(good.machine).verdict, Verdict::kSkip);
  good.tree.Write("/.dockerenv", "");
  EXPECT_EQ(CheckIpcLock(good.machine).verdict, Verdict::kWarn);
}

TEST(CheckDeviceFiles, FailsWhenAContainerLacksTheFile) {
  GoodMachine good;
  good.tree.Remove("/dev/infiniband/uverbs0");
  const Finding finding = CheckDeviceFiles(good.machine);
  EXPECT_EQ(finding.verdict, Verdict::kFail);
  EXPECT_THAT(finding.remedy, HasSubstr("--device /dev/infiniband/uverbs0"));
}

TEST(CheckSharedMemory, WarnsAtDockersDefault) {
  GoodMachine good;
  good.machine.process.shared_bytes = 64 * kMiB;
  EXPECT_EQ(CheckSharedMemory(good.machine).verdict, Verdict::kWarn);
  good.machine.process.shared_bytes.reset();
  EXPECT_EQ(CheckSharedMemory(good.machine).verdict, Verdict::kWarn);
}

TEST(CheckRdmaCore, ReadsTheVersionFromTheFileName) {
  GoodMachine good;
  good.machine.process.verbs = {.file = "libibverbs.so.1.14.44.0", .at_least = 42, .package = ""};
  EXPECT_EQ(CheckRdmaCore(good.machine).found, "version 44.0");
  good.machine.process.verbs.file = "libibverbs.so.1.14.43.0";
  EXPECT_EQ(CheckRdmaCore(good.machine).verdict, Verdict::kFail);
}

TEST(CheckRdmaCore, FallsBackToTheSymbols) {
  GoodMachine good;
  for (const auto& [at_least, verdict] :
       {std::pair{0, Verdict::kFail}, {40, Verdict::kFail}, {42, Verdict::kWarn}, {54, Verdict::kPass}}) {
    good.machine.process.verbs = {.file = "libibverbs.so.1", .at_least = at_least, .package = ""};
    EXPECT_EQ(CheckRdmaCore(good.machine).verdict, verdict) << at_least;
  }
}

TEST(CheckNics, NamesTheCardWithoutADriver) {
  GoodMachine good;
  good.machine.survey.nics.clear();
  const Finding finding = CheckNics(good.machine);
  EXPECT_EQ(finding.verdict, Verdict::kFail);
  EXPECT_THAT(finding.found, HasSubstr("0000:3d:00.0"));
}

TEST(CheckNics, ReportsADeviceThatDoesNotOpen) {
  GoodMachine good;
  good.nic().problem = "Cannot open mlx5_0 with DEVX: Permission denied (EACCES)";
  good.nic().remedy = "Check the permission";
  EXPECT_EQ(CheckNics(good.machine).remedy, "Check the permission");
  for (const auto check : {CheckLink, CheckGid, CheckMtu, CheckAtomics, CheckGpuMemory, CheckLoopback})
    EXPECT_EQ(check(good.machine).verdict, Verdict::kSkip);
}

TEST(CheckLink, WarnsOfOnePortDownAndFailsWhenAllAre) {
  GoodMachine good;
  good.nic().ports.push_back(good.port());
  good.nic().ports[1].port.active = false;
  good.nic().ports[1].port.state = "down";
  EXPECT_EQ(CheckLink(good.machine).verdict, Verdict::kWarn);
  good.port().port.active = false;
  EXPECT_EQ(CheckLink(good.machine).verdict, Verdict::kFail);
}

TEST(CheckGid, WarnsOfLinkLocalAndFailsOnRoceV1) {
  GoodMachine good;
  auto& gids = good.port().gids;
  gids.resize(2);
  EXPECT_EQ(CheckGid(good.machine).verdict, Verdict::kWarn);
  gids.resize(1);
  EXPECT_EQ(CheckGid(good.machine).verdict, Verdict::kFail);
  good.port().port.link_layer = host::LinkLayer::kInfiniBand;
  EXPECT_EQ(CheckGid(good.machine).verdict, Verdict::kPass);
}

TEST(CheckAtomics, WarnsOfMissingAtomicsAndOfAnotherByteOrder) {
  GoodMachine good;
  good.nic().capabilities.atomic_sizes = 4;
  EXPECT_EQ(CheckAtomics(good.machine).verdict, Verdict::kWarn);
  good.nic().capabilities.atomic_operations = 0;
  EXPECT_EQ(CheckAtomics(good.machine).found, "mlx5_0 has no atomics");
}

TEST(CheckDistance, WarnsOfAProcessorBetweenGpuAndNic) {
  GoodMachine good;
  EXPECT_EQ(CheckDistance(good.machine).verdict, Verdict::kPass);
  good.gpu().function = good.tree.AddFunction("/sys/devices/pci0000:80/0000:81:00.0", "0x10de", "0x030200");
  EXPECT_EQ(CheckDistance(good.machine).verdict, Verdict::kWarn);
}

TEST(CheckDistance, SkipsUnknownDistances) {
  GoodMachine good;
  good.nic().function = "";
  EXPECT_EQ(CheckDistance(good.machine).verdict, Verdict::kSkip);
}

TEST(CheckPeer, ReportsTheTransfer) {
  GoodMachine good;
  good.machine.test_with_peer = [] { return "much"; };
  EXPECT_EQ(CheckPeer(good.machine).found, "much");
}

TEST(ParseAddress, ReadsHostsAndPorts) {
  for (const auto& [text, host, port] : {std::tuple{"there", "there", 18518},
                                         {"10.0.0.2:7", "10.0.0.2", 7},
                                         {"[fe80::1]:7", "fe80::1", 7},
                                         {"[fe80::1]", "fe80::1", 18518},
                                         {"fe80::1", "fe80::1", 18518}}) {
    const host::TcpAddress address = ParseAddress(text, false);
    EXPECT_EQ(address.host, host) << text;
    EXPECT_EQ(address.port, port) << text;
  }
  EXPECT_EQ(ParseAddress("", true).port, 18518);
  EXPECT_EQ(ParseAddress("0", true).port, 0);
}

TEST(ParseAddress, RejectsMalformedAddresses) {
  for (const char* const text : {"", ":7", "there:", "there:x", "there:65536", "there:0"})
    EXPECT_THROW(ParseAddress(text, false), std::invalid_argument) << text;
  EXPECT_THROW(ParseAddress("there", true), std::invalid_argument);
}

TEST(CheckAcs, SkipsUnreadableRegisters) {
  GoodMachine good;
  good.tree.Write(good.bridge + "/config", std::string(64, '\0'));
  const Finding finding = CheckAcs(good.machine);
  EXPECT_EQ(finding.verdict, Verdict::kSkip);
  EXPECT_THAT(finding.found, HasSubstr("root"));
}

TEST(CheckIommu, UsesTheCommandLineWhenGroupsHaveNoType) {
  GoodMachine good;
  good.tree.Write("/sys/class/iommu/dmar0/type", "");
  EXPECT_EQ(CheckIommu(good.machine).verdict, Verdict::kWarn);
  good.tree.Write("/proc/cmdline", "quiet iommu=pt\n");
  EXPECT_EQ(CheckIommu(good.machine).verdict, Verdict::kPass);
}

TEST(CheckPcieLink, SkipsUnknownLinks) {
  GoodMachine good;
  good.tree.Write(good.nic_function + "/current_link_speed", "Unknown\n");
  EXPECT_EQ(CheckPcieLink(good.machine).verdict, Verdict::kSkip);
}

TEST(CheckRdmaModules, WarnsOfAnOldKernel) {
  GoodMachine good;
  for (const char* const fine : {"5.13.0\n", "5.15.0-91-generic\n", "6.1.0\n", "unknown\n"}) {
    good.tree.Write("/proc/sys/kernel/osrelease", fine);
    EXPECT_EQ(CheckRdmaModules(good.machine).verdict, Verdict::kPass) << fine;
  }
  for (const char* const old : {"5.10.0-28-amd64\n", "4.18.0-553.el8\n"}) {
    good.tree.Write("/proc/sys/kernel/osrelease", old);
    EXPECT_EQ(CheckRdmaModules(good.machine).verdict, Verdict::kWarn) << old;
  }
  EXPECT_THAT(CheckRdmaModules(good.machine).found,
              HasSubstr("Linux 4.18 is older than 5.13: queues may work in pages of 4 KiB"));
}

TEST(CheckGpuModules, FailsWhenACardHasNoDriver) {
  GoodMachine good;
  good.machine.survey.gpus.clear();
  EXPECT_EQ(CheckGpuModules(good.machine).verdict, Verdict::kPass) << "nvidia_peermem is loaded";
  good.tree.Remove("/sys/module/nvidia_peermem");
  EXPECT_THAT(CheckGpuModules(good.machine).found, HasSubstr("shows no GPU to this process"));
  good.tree.Remove("/sys/module/nvidia");
  EXPECT_THAT(CheckGpuModules(good.machine).found, HasSubstr("0000:41:00.0"));
}

TEST(CheckGpuModules, AcceptsDmaBufsInsteadOfPeerMemory) {
  GoodMachine good;
  good.tree.Remove("/sys/module/nvidia_peermem");
  EXPECT_EQ(CheckGpuModules(good.machine).verdict, Verdict::kPass);
}

TEST(CheckPeerMapping, WarnsUsersOtherThanRoot) {
  GoodMachine good;
  good.tree.Write("/proc/driver/nvidia/params", "RegistryDwords: \"\"\n");
  EXPECT_EQ(CheckPeerMapping(good.machine).verdict, Verdict::kWarn);
  good.machine.process.root = true;
  EXPECT_EQ(CheckPeerMapping(good.machine).verdict, Verdict::kPass);
}

TEST(RunChecks, TurnsExceptionsIntoFailures) {
  const Check throws{"throws", "", [](const Machine&) -> Finding {
                       throw host::Error("do", "it", "it is broken. Really", "Repair it");
                     }};
  bool hung = false;
  const auto results = RunChecks({&throws, 1}, std::make_shared<Machine>(), hung);
  EXPECT_FALSE(hung);
  EXPECT_EQ(results[0].finding.verdict, Verdict::kFail);
  EXPECT_EQ(results[0].finding.found, "Cannot do it: it is broken. Really");
  EXPECT_EQ(results[0].finding.remedy, "Repair it");
}

}  // namespace
}  // namespace warpverbs::programs
