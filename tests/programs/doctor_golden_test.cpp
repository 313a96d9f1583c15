#include "doctor/report.hpp"
#include "fake_machine.hpp"
#include "golden.hpp"
#include "warpverbs/host/error.hpp"

/// Complete reports of machines that have one fault each.
namespace warpverbs::programs {
namespace {

/// Runs all checks on a machine that outlives them.
std::vector<CheckResult> Examine(const Machine& machine) {
  bool hung = false;
  return RunChecks(AllChecks(), {std::shared_ptr<void>(), &machine}, hung);
}

/// Compares text and JSON with golden/doctor_NAME.txt and .json.
void ExpectReport(const std::string& name, const Machine& machine, int exit_code) {
  const auto results = Examine(machine);
  EXPECT_TRUE(golden::MatchesFile("doctor_" + name + ".txt", ToText(results, false)));
  EXPECT_TRUE(golden::MatchesFile("doctor_" + name + ".json", ToJson(results)));
  EXPECT_EQ(ExitCode(results), exit_code);
}

TEST(DoctorReport, PassesAGoodMachine) {
  const GoodMachine good;
  ExpectReport("good", good.machine, 0);
}

TEST(DoctorReport, FailsAMachineWithoutRdma) {
  const PlainMachine plain;
  ExpectReport("plain", plain.machine, 3);
}

TEST(DoctorReport, FailsAMachineWithoutAGid) {
  GoodMachine machine;
  machine.port().gids.clear();
  machine.machine.transfer = [](const std::string&, uint8_t) -> std::string {
    throw host::Error("send from", "port 1 of mlx5_0", "its GID table is empty", "Give it an address");
  };
  ExpectReport("no_gid", machine.machine, 3);
}

TEST(DoctorReport, FailsAMachineWhoseNicsCannotAccessTheGpu) {
  GoodMachine machine;
  machine.tree.Remove("/sys/module/nvidia_peermem");
  machine.tree.Write("/proc/driver/nvidia/params", "RegistryDwords: \"\"\n");
  machine.gpu().attributes.dma_buf = false;
  machine.machine.register_gpu_memory = [](const std::string&, int) -> std::string {
    throw host::Error("register", "65536 bytes of cuda:0 on mlx5_0", "by dma-buf: no; by peer memory: no",
                      "Load it");
  };
  machine.machine.map_doorbell = [](const std::string&, int, bool& mapped) {
    mapped = false;
    return "cuda:0 cannot reach the register: as I/O memory: operation not permitted";
  };
  ExpectReport("no_peermem", machine.machine, 3);
}

TEST(DoctorReport, WarnsOfASlowPathBetweenGpuAndNic) {
  GoodMachine machine;
  machine.tree.SetAcs(machine.bridge, 0x001d);
  machine.tree.Write("/sys/class/iommu/dmar0/type", "");
  machine.tree.Write(machine.nic_function + "/iommu_group/type", "DMA-FQ\n");
  machine.tree.Write(machine.gpu_function + "/iommu_group/type", "identity\n");
  machine.tree.Write(machine.nic_function + "/current_link_speed", "16.0 GT/s PCIe\n");
  machine.tree.Write(machine.nic_function + "/current_link_width", "8\n");
  machine.port().port.active_mtu = mlx5::Mtu::k1024;
  ExpectReport("slow_path", machine.machine, 1);
}

TEST(DoctorReport, ColoursOnlyTheVerdicts) {
  const std::vector<CheckResult> results = {{"gid", {Verdict::kWarn, "found", "Do this"}}};
  EXPECT_EQ(ToText(results, true),
            "\033[33mWARN\033[0m  gid  found\n           -> Do this.\n\n"
            "0 passed, 1 warned, 0 failed, 0 skipped\n");
}

TEST(DoctorReport, WritesValidJsonForAnyText) {
  const std::string json = ToJson(std::vector<CheckResult>{{"nics", {Verdict::kFail, "\xff\"\n", ""}}});
  EXPECT_NE(json.find("\\\"\\n"), std::string::npos) << json;
}

}  // namespace
}  // namespace warpverbs::programs
