#pragma once

#include <string>
#include <vector>

#include "machine/files.hpp"
#include "machine/survey.hpp"

namespace warpverbs::tools {

/// Tables: devices, what they can do, ports, GIDs, GPUs, how far GPUs and devices are apart.
std::string InfoText(const Files& files, const Survey& survey);

/// The same for programs: {"version": 1, "devices": [...], "gpus": [...], "topology": [...]}.
std::string InfoJson(const Files& files, const Survey& survey);

/// A GID, and whether an endpoint takes it.
struct GidChoice {
  host::GidEntry entry{};
  int score = 0;        ///< as host::Score()
  bool chosen = false;  ///< by default, without a gid_index of the user's
  std::string why{};    ///< it is, or is not
};

/// All GIDs of a port, each with the reason.
std::vector<GidChoice> ExplainGids(const NicPort& port);

}  // namespace warpverbs::tools
