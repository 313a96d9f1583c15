#pragma once

#include <memory>
#include <vector>

#include "setup/settings.hpp"
#include "wire/wire_network.hpp"

namespace softhca::uverbs {

/// The network that the settings ask for.
std::unique_ptr<WireNetwork> MakeNetwork(const Settings& settings, std::vector<Hca*> devices);

}  // namespace softhca::uverbs
