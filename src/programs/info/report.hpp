#pragma once

#include <string>
#include <vector>

#include "machine/files.hpp"
#include "machine/survey.hpp"

namespace warpverbs::programs {

/// Tables: devices, what they can do, ports, GIDs, what a transfer takes of them, GPUs, how far GPUs and
/// devices are apart.
std::string InfoText(const Files& files, const Survey& survey, const Fabric& fabric = {});

/// The same for programs: {"version": 1, "devices": [...], "choice": ..., "gpus": [...], "topology": [...]}.
std::string InfoJson(const Files& files, const Survey& survey, const Fabric& fabric = {});

/// A GID, and whether an endpoint takes it.
struct GidChoice {
  host::GidEntry entry{};
  int score = 0;        ///< as host::Score()
  bool chosen = false;  ///< the one that is asked for, or else the best
  std::string why{};    ///< it is, or is not
};

/// All GIDs of a port, each with the reason.
std::vector<GidChoice> ExplainGids(const NicPort& port, const Fabric& fabric = {});

}  // namespace warpverbs::programs
