#include "machine/kernel.hpp"

#include <algorithm>

#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"
#include "machine/pci.hpp"

namespace warpverbs::programs {
namespace {

constexpr uint16_t kGpuVendor = 0x10de;
constexpr uint8_t kDisplayClass = 0x03;
constexpr char kPeerModule[] = "nvidia_peermem";
constexpr char kOldPeerModule[] = "nv_peer_mem";

bool AnyDmaBuf(const Machine& machine) {
  const auto& gpus = machine.survey.gpus;
  return std::any_of(gpus.begin(), gpus.end(), [](const GpuSeen& gpu) { return gpu.attributes.dma_buf; });
}

/// What nvidia is good for without one of the ways to a GPU's memory.
Outcome WaysToGpuMemory(const Machine& machine) {
  for (const char* const peer : {kPeerModule, kOldPeerModule}) {
    if (HasModule(machine.files, peer))
      return {Verdict::kPass, std::string("nvidia and ") + peer + " are there", ""};
  }
  if (machine.survey.gpus.empty())
    return {Verdict::kFail, "nvidia is there, but its driver shows this process no GPU",
            "Check nvidia-smi and CUDA_VISIBLE_DEVICES, and in a container pass the GPUs on (`--gpus all`)"};
  if (AnyDmaBuf(machine))
    return {Verdict::kPass, "nvidia is there; dma-bufs do in place of nvidia_peermem", ""};
  return {Verdict::kFail, "nvidia is there, but neither nvidia_peermem nor dma-bufs lead NICs to its memory",
          "Load nvidia_peermem (`modprobe nvidia_peermem`), or install the open kernel modules "
          "(nvidia-open), which export dma-bufs"};
}

}  // namespace

Outcome CheckRdmaModules(const Machine& machine) {
  if (machine.is_software()) return Skip("softhca stands in for the kernel's modules");
  std::vector<std::string> missing;
  for (const char* const name : {"mlx5_core", "mlx5_ib", "ib_uverbs"})
    if (!HasModule(machine.files, name)) missing.emplace_back(name);
  if (missing.empty()) return {Verdict::kPass, "mlx5_core, mlx5_ib and ib_uverbs are there", ""};
  return {Verdict::kFail, "the kernel lacks " + Join(missing),
          "Load them (`modprobe mlx5_ib ib_uverbs`); a kernel without them needs its package of extra "
          "modules, or DOCA"};
}

Outcome CheckGpuModules(const Machine& machine) {
  if (HasModule(machine.files, "nvidia")) return WaysToGpuMemory(machine);
  if (!machine.survey.gpus.empty()) {
    return machine.is_software()
               ? Skip("softhca reaches GPU memory by the driver, without modules")
               : Outcome{Verdict::kFail, "there is a driver's library, but not the module nvidia",
                         "Load nvidia (`modprobe nvidia`) of the same version as libcuda.so.1"};
  }
  const auto gpus = FindFunctions(machine.files, kGpuVendor, kDisplayClass);
  if (gpus.empty()) return Skip("there is no NVIDIA GPU");
  return {Verdict::kFail, "the kernel lacks nvidia for the GPU at " + Join(gpus),
          "Install the NVIDIA driver, 535 or later, best with the open kernel modules (nvidia-open)"};
}

Outcome CheckPeerMapping(const Machine& machine) {
  const auto params = machine.files.Read("/proc/driver/nvidia/params");
  if (!params) return Skip("the kernel has no NVIDIA driver");
  const size_t at = params->find("RegistryDwords:");
  const std::string dwords = at == std::string::npos ? "" : params->substr(at, params->find('\n', at) - at);
  if (dwords.find("PeerMappingOverride=1") != std::string::npos)
    return {Verdict::kPass, "PeerMappingOverride=1 is set", ""};
  if (machine.process.root)
    return {Verdict::kPass, "PeerMappingOverride is not set, and root, as who this runs, needs it not", ""};
  return {Verdict::kWarn, "PeerMappingOverride is not set: for users other than root a host thread rings",
          "Put `options nvidia NVreg_RegistryDwords=\"PeerMappingOverride=1;\"` into "
          "/etc/modprobe.d/nvidia-doorbell.conf, build the initial RAM disk again and reboot"};
}

}  // namespace warpverbs::programs
