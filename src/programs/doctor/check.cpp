#include "doctor/check.hpp"

#include <chrono>
#include <exception>

#include "machine/deadline.hpp"

namespace warpverbs::programs {
namespace {

constexpr Check kChecks[] = {
    {"nics", "a ConnectX is there and can be opened", CheckNics},
    {"rdma-modules", "the kernel has mlx5_core, mlx5_ib and ib_uverbs", CheckRdmaModules},
    {"rdma-core", "the loaded rdma-core is version 44 or later", CheckRdmaCore},
    {"device-files", "/dev/infiniband/uverbs* are there and open", CheckDeviceFiles},
    {"memlock", "enough memory may be locked", CheckMemlock},
    {"ipc-lock", "a low limit on locked memory is lifted by CAP_IPC_LOCK", CheckIpcLock},
    {"shm", "/dev/shm is larger than a container's default", CheckSharedMemory},
    {"link", "every port is active", CheckLink},
    {"gid", "every active port has a routable RoCE v2 address", CheckGid},
    {"choice", "the port, GID, traffic class and service level that are asked for are there", CheckChoice},
    {"mtu", "every active port has its largest MTU", CheckMtu},
    {"atomics", "the NIC has atomic operations", CheckAtomics},
    {"pcie-link", "the NIC's PCIe link has its full speed and width", CheckPcieLink},
    {"distance", "each GPU has a NIC behind the same PCIe switches", CheckDistance},
    {"acs", "no PCIe bridge redirects what GPU and NIC send each other", CheckAcs},
    {"iommu", "the IOMMU is off or passes through", CheckIommu},
    {"gpu-modules", "the kernel has nvidia, and a way for NICs to a GPU's memory", CheckGpuModules},
    {"peer-mapping", "kernels of all users may ring a NIC's doorbell", CheckPeerMapping},
    {"dma-buf", "the GPU's driver exports its memory as dma-bufs", CheckDmaBuf},
    {"gpu-memory", "a NIC registers memory of each GPU", CheckGpuMemory},
    {"doorbell", "each GPU maps a NIC's doorbell register", CheckDoorbell},
    {"loopback", "every active port moves data", CheckLoopback},
    {"peer", "this machine and the one of --peer or --listen move data", CheckPeer, 120},
};

Outcome RunGuarded(const Check& check, const Machine& machine) {
  try {
    return check.run(machine);
  } catch (const std::exception& error) {
    std::string remedy;
    const std::string found = Split(error, remedy);
    return {Verdict::kFail, found, remedy.empty() ? "Report this, with the output of --json" : remedy};
  }
}

Outcome Hung(const Check& check) {
  return {Verdict::kFail, "it has not ended within " + std::to_string(check.patience_s) + " s",
          "Look into the kernel log (dmesg) for mlx5 and NVRM; a driver or the firmware hangs"};
}

}  // namespace

std::span<const Check> AllChecks() { return kChecks; }

std::vector<Result> RunChecks(std::span<const Check> checks, const std::shared_ptr<const Machine>& machine,
                              bool& hung) {
  std::vector<Result> results;
  for (const Check& check : checks) {
    // The machine is shared so that a check that hangs keeps what it looks at.
    const auto outcome = RunWithin<Outcome>(std::chrono::seconds(check.patience_s),
                                            [check, machine] { return RunGuarded(check, *machine); });
    hung = hung || !outcome;
    results.push_back({check.id, outcome.value_or(Hung(check))});
  }
  return results;
}

}  // namespace warpverbs::programs
