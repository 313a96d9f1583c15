#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "machine/machine.hpp"

namespace warpverbs::programs {

/// A check of one requirement of GPU-initiated RDMA.
struct Check {
  const char* id;     ///< "pcie-link"; stable: scripts use it
  const char* title;  ///< the meaning of PASS, in one line
  Finding (*run)(const Machine& machine);
  int timeout_s = 60;  ///< a check that takes longer has failed
};

/// Returns all checks, prerequisites first.
std::span<const Check> AllChecks();

/// The finding of a check.
struct CheckResult {
  std::string id{};
  Finding finding;
};

/// Runs checks. A check that throws or does not end in time has failed.
///
/// @param hung  set to true if a check still runs: then leave the program by std::_Exit()
std::vector<CheckResult> RunChecks(std::span<const Check> checks,
                                   const std::shared_ptr<const Machine>& machine, bool& hung);

// The checks. Each reads only `machine`, and may throw.

Finding CheckNics(const Machine& machine);
Finding CheckRdmaModules(const Machine& machine);
Finding CheckRdmaCore(const Machine& machine);
Finding CheckLink(const Machine& machine);
Finding CheckGid(const Machine& machine);
Finding CheckMtu(const Machine& machine);
Finding CheckAtomics(const Machine& machine);
Finding CheckChoice(const Machine& machine);

Finding CheckGpuModules(const Machine& machine);
Finding CheckPeerMapping(const Machine& machine);
Finding CheckDmaBuf(const Machine& machine);
Finding CheckGpuMemory(const Machine& machine);
Finding CheckDoorbell(const Machine& machine);

Finding CheckPcieLink(const Machine& machine);
Finding CheckAcs(const Machine& machine);
Finding CheckIommu(const Machine& machine);
Finding CheckDistance(const Machine& machine);

Finding CheckMemlock(const Machine& machine);
Finding CheckIpcLock(const Machine& machine);
Finding CheckDeviceFiles(const Machine& machine);
Finding CheckSharedMemory(const Machine& machine);

Finding CheckLoopback(const Machine& machine);
Finding CheckPeer(const Machine& machine);

}  // namespace warpverbs::programs
