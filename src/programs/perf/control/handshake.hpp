#pragma once

#include "perf/control/control_channel.hpp"
#include "perf/options/options.hpp"
#include "warpverbs/host/device.hpp"

/// What the sides exchange before they create anything.
namespace warpverbs::perf {

/// Checks that the peer is warpverbs-perf with this protocol.
///
/// @errors  std::runtime_error
void ExchangeVersions(ControlChannel& control);

/// Compares the options that concern both sides.
///
/// @return  the number of connected pairs of initiators; a side with one uses it for each of the peer's
/// @errors  std::runtime_error: names the first option that differs, and both values
size_t ExchangeOptions(ControlChannel& control, const Options& options);

/// Returns the larger of both sides' page sizes and of their cache line sizes.
Alignment ExchangeAlignment(ControlChannel& control);

/// Returns the MTU of the path: the smallest of both ports' MTUs and the one of the command line.
///
/// @errors  std::runtime_error: the command line asks for more than the ports support
uint32_t CheckMtu(ControlChannel& control, const Options& options, const host::Port& port);

}  // namespace warpverbs::perf
