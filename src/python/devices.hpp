#pragma once

#include <memory>
#include <optional>
#include <string>

#include "binding.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::python {

/// warpverbs.Device
class Device : public Handle<const host::Device> {
 public:
  explicit Device(const std::optional<std::string>& name);
};

/// warpverbs.Gpu. Copies are the same GPU, so it needs no handle.
using host::Gpu;

}  // namespace warpverbs::python
