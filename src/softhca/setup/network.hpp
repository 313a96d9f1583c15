#pragma once

#include <memory>
#include <vector>

#include "core/hca.hpp"
#include "setup/settings.hpp"
#include "wire/wire_network.hpp"

namespace softhca {

/// Makes the network that the settings ask for, with the capture of `--pcap` and the frame faults of
/// `--fault`.
///
/// @errors  std::runtime_error: the capture's file cannot be written; a sentence
std::unique_ptr<WireNetwork> MakeNetwork(const Settings& settings, const std::vector<Hca*>& devices);

/// Adds the faults of `--fault` that do not happen to frames: links that go down, entries that fail, the end
/// of the process. Returns the network itself if there are none.
std::unique_ptr<Network> AddIncidents(std::unique_ptr<Network> network, const Settings& settings,
                                      const std::vector<Hca*>& devices);

}  // namespace softhca
