#pragma once

#include <string>
#include <vector>

#include "machine/files.hpp"
#include "machine/survey.hpp"

namespace warpverbs::programs {

/// Returns tables of devices, capabilities, ports, GIDs, the defaults of a transfer, GPUs, and distances
/// between GPUs and devices.
std::string InfoText(const Files& files, const Survey& survey, const DeviceSelection& selection = {});

/// Returns the same as JSON, with the keys version, devices, choice, gpus and topology.
std::string InfoJson(const Files& files, const Survey& survey, const DeviceSelection& selection = {});

/// A GID, and whether an endpoint uses it.
struct GidChoice {
  host::GidEntry entry{};
  int score = 0;        ///< host::Score()
  bool chosen = false;  ///< whether it is the requested one, or else the best
  std::string why{};    ///< reason for the choice
};

/// Returns all GIDs of a port, each with the reason.
std::vector<GidChoice> ExplainGids(const PortInfo& port, const DeviceSelection& selection = {});

}  // namespace warpverbs::programs
