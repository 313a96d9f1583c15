#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "doctor/outcome.hpp"
#include "machine/machine.hpp"

namespace warpverbs::programs {

/// One thing that GPU-initiated RDMA needs.
struct Check {
  const char* id;     ///< "pcie-link"; stable, scripts name it
  const char* title;  ///< the question, in a line
  Outcome (*run)(const Machine& machine);
  int patience_s = 60;  ///< what takes longer has failed
};

/// All checks, in the order in which they make sense.
std::span<const Check> AllChecks();

/// A check's outcome.
struct Result {
  std::string id{};
  Outcome outcome;
};

/// Runs checks; one that throws, or does not end in time, has failed.
///
/// @param hung  set to whether one still runs: then leave the program by std::_Exit()
std::vector<Result> RunChecks(std::span<const Check> checks, const std::shared_ptr<const Machine>& machine,
                              bool& hung);

// The checks. Each looks at `machine` alone and may throw.

Outcome CheckNics(const Machine& machine);
Outcome CheckRdmaModules(const Machine& machine);
Outcome CheckRdmaCore(const Machine& machine);
Outcome CheckLink(const Machine& machine);
Outcome CheckGid(const Machine& machine);
Outcome CheckMtu(const Machine& machine);
Outcome CheckAtomics(const Machine& machine);
Outcome CheckChoice(const Machine& machine);

Outcome CheckGpuModules(const Machine& machine);
Outcome CheckPeerMapping(const Machine& machine);
Outcome CheckDmaBuf(const Machine& machine);
Outcome CheckGpuMemory(const Machine& machine);
Outcome CheckDoorbell(const Machine& machine);

Outcome CheckPcieLink(const Machine& machine);
Outcome CheckAcs(const Machine& machine);
Outcome CheckIommu(const Machine& machine);
Outcome CheckDistance(const Machine& machine);

Outcome CheckMemlock(const Machine& machine);
Outcome CheckIpcLock(const Machine& machine);
Outcome CheckDeviceFiles(const Machine& machine);
Outcome CheckSharedMemory(const Machine& machine);

Outcome CheckLoopback(const Machine& machine);
Outcome CheckPeer(const Machine& machine);

}  // namespace warpverbs::programs
