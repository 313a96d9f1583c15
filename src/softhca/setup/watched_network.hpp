#pragma once

#include <memory>
#include <vector>

#include "core/hca.hpp"
#include "setup/settings.hpp"
#include "wire/wire_network.hpp"

namespace softhca::uverbs {

/// Puts between a network and its medium what `--pcap` and `--fault` ask for; the capture sees what was lost
/// as lost.
///
/// @errors  std::runtime_error: the capture's file cannot be written; a sentence
WireOptions WithFaultsAndCapture(WireOptions options, const Settings& settings,
                                 const std::vector<Hca*>& devices);

/// Adds the faults that do not happen to frames.
std::unique_ptr<Network> WithIncidents(std::unique_ptr<Network> network, const Settings& settings,
                                       const std::vector<Hca*>& devices);

}  // namespace softhca::uverbs
