#pragma once

#include <infiniband/verbs.h>

#include "warpverbs/host/device.hpp"

namespace warpverbs::inline v0_2::host {

/// Reads a device's capabilities.
///
/// @param context  opened with DEVX
/// @errors  Error: the query of the general or the atomic page fails. Without a RoCE page, its defaults stay
Capabilities QueryCapabilities(ibv_context* context);

/// Queries a device through plain verbs.
///
/// @errors  Error
ibv_device_attr QueryAttributes(ibv_context* context);

}  // namespace warpverbs::inline v0_2::host
