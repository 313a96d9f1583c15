#pragma once

#include <infiniband/verbs.h>

namespace warpverbs::host {

/// What plain verbs say about a device.
///
/// @errors  Error
ibv_device_attr QueryAttributes(ibv_context* context);

}  // namespace warpverbs::host
