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
class Gpu : public ZeroedMemory, private host::Gpu {
 public:
  using host::Gpu::Count;
  explicit Gpu(int ordinal) : host::Gpu(ordinal) {}

  /// @errors  ClosedError: made without __init__()
  const host::Gpu& Get() const {
    if (!context()) throw ClosedError("an object without __init__()");
    return *this;
  }
};

}  // namespace warpverbs::python
