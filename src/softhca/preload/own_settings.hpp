#pragma once

#include "setup/settings.hpp"

namespace softhca::uverbs {

/// What the launcher said; null in a process without it.
const Settings* LaunchSettings();

/// The same with addresses of this process's own, and the tree that shows them; claimed when the process
/// first looks for devices. Takes no lock and allocates nothing from then on.
///
/// If no addresses can be had it says so, and leaves the launcher's.
const Settings* OwnSettings();

}  // namespace softhca::uverbs
