#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"

namespace warpverbs::programs {
namespace {

/// Calls `probe` for each GPU with the first NIC. A probe that throws has failed.
template <class Probe>
Finding ProbeEach(const Machine& machine, const Probe& probe) {
  const auto gpus = UsableGpus(machine);
  const auto nics = UsableNics(machine);
  if (gpus.empty()) return Skip(kNoGpu);
  if (nics.empty()) return Skip(kNoNic);
  Findings findings;
  for (const GpuInfo* const gpu : gpus) {
    try {
      // Any NIC will do: only the kernel and the GPU's driver may refuse.
      probe(*gpu, *nics.front(), findings);
    } catch (const std::exception& error) {
      std::string remedy;
      const std::string found = SplitRemedy(error, remedy);
      findings.Fail(gpu->name + " with " + nics.front()->name + ": " + found, remedy);
    }
  }
  return findings.Combine();
}

int Ordinal(const GpuInfo& gpu) { return std::stoi(gpu.name.substr(gpu.name.find(':') + 1)); }

}  // namespace

Finding CheckDmaBuf(const Machine& machine) {
  Findings findings;
  for (const GpuInfo& gpu : machine.survey.gpus) {
    if (!gpu.usable())
      findings.Fail(gpu.name + ": " + gpu.problem, gpu.remedy);
    else if (gpu.attributes.dma_buf)
      findings.Pass(gpu.name + " (" + gpu.model + ") exports dma-bufs");
    else
      findings.Warn(gpu.name + " (" + gpu.model + ") exports no dma-bufs",
                    "Install the open kernel modules (nvidia-open) on Linux 5.12 or later, or rely on "
                    "nvidia_peermem");
  }
  return findings.empty() ? Skip(kNoGpu) : findings.Combine();
}

Finding CheckGpuMemory(const Machine& machine) {
  return ProbeEach(machine, [&](const GpuInfo& gpu, const NicInfo& nic, Findings& findings) {
    findings.Pass(nic.name + " registers memory of " + gpu.name + " as " +
                  machine.register_gpu_memory(nic.name, Ordinal(gpu)));
  });
}

Finding CheckDoorbell(const Machine& machine) {
  return ProbeEach(machine, [&](const GpuInfo& gpu, const NicInfo& nic, Findings& findings) {
    bool mapped = false;
    const std::string how = machine.map_doorbell(nic.name, Ordinal(gpu), mapped);
    if (mapped)
      findings.Pass(nic.name + ": " + how);
    else
      findings.Warn(nic.name + ": " + how + "; a host thread rings instead of its kernels",
                    "Run as root, or set PeerMappingOverride=1 (see the check peer-mapping)");
  });
}

}  // namespace warpverbs::programs
