#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"

namespace warpverbs::programs {
namespace {

/// Calls `probe` for each GPU with a NIC; what throws has failed.
template <class Probe>
Outcome ProbeEach(const Machine& machine, const Probe& probe) {
  const auto gpus = UsableGpus(machine);
  const auto nics = UsableNics(machine);
  if (gpus.empty()) return Skip(kNoGpu);
  if (nics.empty()) return Skip(kNoNic);
  Findings findings;
  for (const GpuSeen* const gpu : gpus) {
    try {
      // Which NIC does not matter: it is the kernel and the GPU's driver that may refuse.
      probe(*gpu, *nics.front(), findings);
    } catch (const std::exception& error) {
      std::string remedy;
      const std::string found = Split(error, remedy);
      findings.Fail(gpu->name + " with " + nics.front()->name + ": " + found, remedy);
    }
  }
  return findings.Sum();
}

int Ordinal(const GpuSeen& gpu) { return std::stoi(gpu.name.substr(gpu.name.find(':') + 1)); }

}  // namespace

Outcome CheckDmaBuf(const Machine& machine) {
  Findings findings;
  for (const GpuSeen& gpu : machine.survey.gpus) {
    if (!gpu.usable())
      findings.Fail(gpu.name + ": " + gpu.problem, gpu.remedy);
    else if (gpu.attributes.dma_buf)
      findings.Pass(gpu.name + " (" + gpu.model + ") exports them");
    else
      findings.Warn(gpu.name + " (" + gpu.model + ") exports none",
                    "Install the open kernel modules (nvidia-open) on Linux 5.12 or later, or rely on "
                    "nvidia_peermem");
  }
  return findings.empty() ? Skip(kNoGpu) : findings.Sum();
}

Outcome CheckGpuMemory(const Machine& machine) {
  return ProbeEach(machine, [&](const GpuSeen& gpu, const Nic& nic, Findings& findings) {
    findings.Pass(nic.name + " registers memory of " + gpu.name + " as " +
                  machine.register_gpu_memory(nic.name, Ordinal(gpu)));
  });
}

Outcome CheckDoorbell(const Machine& machine) {
  return ProbeEach(machine, [&](const GpuSeen& gpu, const Nic& nic, Findings& findings) {
    bool mapped = false;
    const std::string how = machine.map_doorbell(nic.name, Ordinal(gpu), mapped);
    if (mapped)
      findings.Pass(nic.name + ": " + how);
    else
      findings.Warn(nic.name + ": " + how + "; a host thread rings for its kernels",
                    "Run as root, or set PeerMappingOverride=1 (see the check peer-mapping)");
  });
}

}  // namespace warpverbs::programs
