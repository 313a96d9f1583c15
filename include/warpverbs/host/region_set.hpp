#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::host {

/// Memory that several NICs may reach, each by keys of its own. The memory stays the caller's and must
/// outlive the regions.
class RegionSet {
 public:
  /// Registers memory on each of the devices. One that works is enough: who needs another asks Has().
  ///
  /// @param devices  each must outlive this
  /// @errors  Error: no device at all, or none that reaches the memory; names the reason of each
  RegionSet(std::span<const Device* const> devices, void* memory, size_t bytes, const Access& access = {});

  /// The same of all of a buffer, also of one that only its own file reaches.
  RegionSet(std::span<const Device* const> devices, const Buffer& buffer, const Access& access = {});

  size_t devices() const { return regions_.size(); }

  /// Whether a device reaches the memory.
  ///
  /// @param device  index in the devices of the constructor
  /// @errors  std::out_of_range: there is no such device
  bool Has(size_t device) const;

  /// All of the memory, with a device's keys.
  ///
  /// @errors  std::out_of_range: there is no such device; Error: the device does not reach the memory, and
  /// why
  MemoryView View(size_t device) const;

  /// The same by the device itself.
  ///
  /// @errors  Error: it is none of those of the constructor, and which those are
  MemoryView View(const Device& device) const;

 private:
  void RegisterOnEach(size_t bytes, const std::function<MemoryRegion(const Device&)>& register_on);

  std::vector<const Device*> devices_;
  std::vector<std::optional<MemoryRegion>> regions_;
  std::vector<std::optional<Error>> failures_;
};

}  // namespace warpverbs::host
