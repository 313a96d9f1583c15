#pragma once

#include <memory>
#include <vector>

#include "core/hca.hpp"
#include "observe/pcap.hpp"
#include "setup/settings.hpp"
#include "wire/wire_network.hpp"

namespace softhca {

/// Makes the network that the settings ask for, with the frame faults of `--fault`.
///
/// @param capture  receives the frames; null: no capture
std::unique_ptr<WireNetwork> MakeNetwork(const Settings& settings, const std::vector<Hca*>& devices,
                                         const std::shared_ptr<PcapWriter>& capture);

/// Adds the faults of `--fault` that do not happen to frames: links that go down, entries that fail, the end
/// of the process. Returns the network itself if there are none.
std::unique_ptr<Network> AddIncidents(std::unique_ptr<Network> network, const Settings& settings,
                                      const std::vector<Hca*>& devices);

}  // namespace softhca
