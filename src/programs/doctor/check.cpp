#include "doctor/check.hpp"

#include <chrono>
#include <exception>

#include "common/thread.hpp"

namespace warpverbs::programs {
namespace {

constexpr Check kChecks[] = {
    {"nics", "a ConnectX exists and opens", CheckNics},
    {"rdma-modules", "the kernel has mlx5_core, mlx5_ib and ib_uverbs", CheckRdmaModules},
    {"rdma-core", "the loaded rdma-core is version 44 or later", CheckRdmaCore},
    {"device-files", "/dev/infiniband/uverbs* exist and open", CheckDeviceFiles},
    {"memlock", "this process may lock enough memory", CheckMemlock},
    {"ipc-lock", "CAP_IPC_LOCK lifts a low limit on locked memory", CheckIpcLock},
    {"shm", "/dev/shm is larger than a container's default", CheckSharedMemory},
    {"link", "every port is active", CheckLink},
    {"gid", "every active port has a routable RoCE v2 address", CheckGid},
    {"choice", "the selected port, GID, traffic class and service level exist", CheckChoice},
    {"mtu", "every active port has its largest MTU", CheckMtu},
    {"atomics", "the NIC supports atomic operations", CheckAtomics},
    {"pcie-link", "the NIC's PCIe link has its full speed and width", CheckPcieLink},
    {"distance", "each GPU has a NIC behind the same PCIe switches", CheckDistance},
    {"acs", "no PCIe bridge redirects traffic between GPU and NIC", CheckAcs},
    {"iommu", "the IOMMU is off or in pass-through mode", CheckIommu},
    {"gpu-modules", "the kernel has nvidia, and NICs can access GPU memory", CheckGpuModules},
    {"peer-mapping", "the GPU kernels of all users may ring a NIC's doorbell", CheckPeerMapping},
    {"dma-buf", "the GPU's driver exports its memory as dma-bufs", CheckDmaBuf},
    {"gpu-memory", "a NIC registers memory of each GPU", CheckGpuMemory},
    {"doorbell", "each GPU maps a NIC's doorbell register", CheckDoorbell},
    {"loopback", "every active port moves data", CheckLoopback},
    {"peer", "this machine and the peer (--peer, --listen) move data", CheckPeer, 120},
};

Finding RunGuarded(const Check& check, const Machine& machine) {
  try {
    return check.run(machine);
  } catch (const std::exception& error) {
    std::string remedy;
    const std::string found = SplitRemedy(error, remedy);
    return {Verdict::kFail, found,
            remedy.empty() ? "Report this as a bug, with the output of --json" : remedy};
  }
}

Finding TimedOut(const Check& check) {
  return {Verdict::kFail, "the check took more than " + std::to_string(check.timeout_s) + " s",
          "Look for mlx5 and NVRM in the kernel log (dmesg): a driver or the firmware hangs"};
}

}  // namespace

std::span<const Check> AllChecks() { return kChecks; }

std::vector<CheckResult> RunChecks(std::span<const Check> checks,
                                   const std::shared_ptr<const Machine>& machine, bool& hung) {
  std::vector<CheckResult> results;
  for (const Check& check : checks) {
    // A check that hangs continues in its thread, so it shares the machine.
    auto finding = RunWithin<Finding>(std::chrono::seconds(check.timeout_s),
                                      [check, machine] { return RunGuarded(check, *machine); });
    hung = hung || !finding;
    results.push_back({check.id, finding.value_or(TimedOut(check))});
  }
  return results;
}

}  // namespace warpverbs::programs
