#include <stdexcept>
#include <string>

#include "memory/locked_memory.hpp"
#include "warpverbs/host/region_cache.hpp"

namespace warpverbs::inline v0_2::host {

RegionSet::RegionSet(std::span<const Device* const> devices, void* memory, size_t bytes, const Access& access)
    : devices_(devices.begin(), devices.end()) {
  RegisterOnEach(bytes, [&](const Device& device) { return MemoryRegion(device, memory, bytes, access); });
}

RegionSet::RegionSet(std::span<const Device* const> devices, const Buffer& buffer, const Access& access)
    : devices_(devices.begin(), devices.end()) {
  RegisterOnEach(buffer.size(), [&](const Device& device) { return buffer.Register(device, access); });
}

void RegionSet::RegisterOnEach(size_t bytes, const std::function<MemoryRegion(const Device&)>& register_on) {
  std::string reasons;
  bool any = false;
  for (const Device* device : devices_) {
    std::optional<MemoryRegion>& region = regions_.emplace_back();
    std::optional<Error>& failure = failures_.emplace_back();
    try {
      region = register_on(*device);
      any = true;
    } catch (const Error& error) {
      failure = error;
    }
  }
  if (any) return;
  if (failures_.size() == 1) throw *failures_.front();
  if (failures_.empty()) {
    throw Error("register", std::to_string(bytes) + " bytes", "no device is named", "Name one or more");
  }
  int error_number = 0;
  for (const auto& failure : failures_) {
    if (!reasons.empty()) reasons += " ";
    reasons += failure->what();
    if (IsOutOfResources(failure->error_number())) error_number = failure->error_number();
  }
  throw Error("register",
              std::to_string(bytes) + " bytes on any of " + std::to_string(devices()) + " devices",
              "no device can register them", reasons, error_number);
}

bool RegionSet::Has(size_t device) const {
  if (device < devices()) return regions_[device].has_value();
  throw std::out_of_range("region: device index " + std::to_string(device) +
                          " is out of range: " + std::to_string(devices()) + " were named");
}

MemoryView RegionSet::View(size_t device) const {
  if (!Has(device)) throw *failures_[device];
  return regions_[device]->View();
}

MemoryView RegionSet::View(const Device& device) const {
  std::string names;
  for (size_t i = 0; i < devices(); ++i) {
    if (devices_[i] == &device) return View(i);
    names += (i == 0 ? "" : ", ") + devices_[i]->name();
  }
  throw Error("use", "memory on " + device.name(), "it is registered only on " + names + "",
              "Register it on this device too, or post to an endpoint of one that it was registered on");
}

}  // namespace warpverbs::inline v0_2::host
