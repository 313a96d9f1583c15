#include <algorithm>
#include <cstdio>
#include <utility>

#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"
#include "machine/pci.hpp"
#include "machine/process.hpp"

namespace warpverbs::programs {
namespace {

constexpr uint16_t kGpuVendor = 0x10de;
constexpr uint8_t kDisplayClass = 0x03;
constexpr char kPeerModule[] = "nvidia_peermem";
constexpr char kOldPeerModule[] = "nv_peer_mem";

bool AnyDmaBuf(const Machine& machine) {
  const auto& gpus = machine.survey.gpus;
  return std::any_of(gpus.begin(), gpus.end(), [](const GpuInfo& gpu) { return gpu.attributes.dma_buf; });
}

/// Checks that NICs can access GPU memory, given that nvidia is loaded.
Finding WaysToGpuMemory(const Machine& machine) {
  for (const char* const peer : {kPeerModule, kOldPeerModule}) {
    if (HasModule(machine.files, peer))
      return {Verdict::kPass, std::string("nvidia and ") + peer + " are loaded", ""};
  }
  if (machine.survey.gpus.empty())
    return {Verdict::kFail, "nvidia is loaded, but its driver shows no GPU to this process",
            "Check nvidia-smi and CUDA_VISIBLE_DEVICES, and pass the GPUs to a container (`--gpus all`)"};
  if (AnyDmaBuf(machine)) return {Verdict::kPass, "nvidia is loaded, and GPUs export dma-bufs", ""};
  return {Verdict::kFail,
          "nvidia is loaded, but NICs cannot access GPU memory: nvidia_peermem and dma-bufs are missing",
          "Load nvidia_peermem (`modprobe nvidia_peermem`), or install the open kernel modules "
          "(nvidia-open), which export dma-bufs"};
}

/// Checks that the kernel lets queues choose their pages, given that its modules are loaded. The modules may
/// be newer than the kernel's version says: those of DOCA, and those of RHEL 8's Linux 4.18.
Finding KernelForQueues(const Machine& machine) {
  const std::string loaded = "mlx5_core, mlx5_ib and ib_uverbs are loaded";
  int major = 0, minor = 0;
  const std::string release = machine.files.ReadOrEmpty("/proc/sys/kernel/osrelease");
  if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2 ||
      std::pair(major, minor) >= std::pair(5, 13))
    return {Verdict::kPass, loaded, ""};
  return {Verdict::kWarn,
          loaded + ", but Linux " + std::to_string(major) + "." + std::to_string(minor) +
              " is older than 5.13: queues may work in pages of 4 KiB only, and not in GPU memory",
          "If queues fail in GPU memory, use Linux 5.13 or later, or the modules of DOCA"};
}

}  // namespace

Finding CheckRdmaModules(const Machine& machine) {
  if (machine.is_software()) return Skip("softhca replaces the kernel modules");
  std::vector<std::string> missing;
  for (const char* const name : {"mlx5_core", "mlx5_ib", "ib_uverbs"})
    if (!HasModule(machine.files, name)) missing.emplace_back(name);
  if (missing.empty()) return KernelForQueues(machine);
  return {Verdict::kFail, "the kernel lacks " + Join(missing),
          "Load them (`modprobe mlx5_ib ib_uverbs`). If the kernel does not have them, install its package "
          "of extra modules, or DOCA"};
}

Finding CheckGpuModules(const Machine& machine) {
  if (HasModule(machine.files, "nvidia")) return WaysToGpuMemory(machine);
  if (!machine.survey.gpus.empty()) {
    return machine.is_software()
               ? Skip("softhca accesses GPU memory through the driver, without kernel modules")
               : Finding{Verdict::kFail,
                         "the driver library is installed, but the module nvidia is not loaded",
                         "Load nvidia (`modprobe nvidia`) in the version of libcuda.so.1"};
  }
  const auto gpus = FindFunctions(machine.files, kGpuVendor, kDisplayClass);
  if (gpus.empty()) return Skip("this machine has no NVIDIA GPU");
  return {Verdict::kFail, "the kernel lacks nvidia for the GPU at " + Join(gpus),
          "Install the NVIDIA driver 535 or later, preferably with the open kernel modules (nvidia-open)"};
}

Finding CheckPeerMapping(const Machine& machine) {
  const auto params = machine.files.Read("/proc/driver/nvidia/params");
  if (!params) return Skip("the kernel has no NVIDIA driver");
  const size_t at = params->find("RegistryDwords:");
  const std::string dwords = at == std::string::npos ? "" : params->substr(at, params->find('\n', at) - at);
  if (dwords.find("PeerMappingOverride=1") != std::string::npos)
    return {Verdict::kPass, "PeerMappingOverride=1 is set", ""};
  if (machine.process.root)
    return {Verdict::kPass, "PeerMappingOverride is not set, but root does not need it", ""};
  return {Verdict::kWarn, "PeerMappingOverride is not set: a host thread rings for users other than root",
          "Add `options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"` to "
          "/etc/modprobe.d/nvidia-doorbell.conf, rebuild the initial RAM disk and reboot"};
}

}  // namespace warpverbs::programs
