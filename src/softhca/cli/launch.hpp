#pragma once

#include "cli/options.hpp"

namespace softhca {

/// Runs the program on the devices and waits for it; signals that end programs are passed on to it.
///
/// @return  the program's exit code, or 128 + the signal that ended it; 127: there is no such program;
///          126: it cannot be executed; 1: the devices cannot be set up
int Launch(const Options& options);

}  // namespace softhca
