#pragma once

#include <infiniband/verbs.h>

namespace warpverbs::host {

/// Returns the device attributes of plain verbs.
///
/// @errors  Error
ibv_device_attr QueryAttributes(ibv_context* context);

}  // namespace warpverbs::host
