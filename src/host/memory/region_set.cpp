#include "warpverbs/host/region_set.hpp"

namespace warpverbs::host {

RegionSet::RegionSet(std::span<const Device* const> devices, void* memory, size_t bytes,
                     const Access& access) {
  std::string reasons;
  bool any = false;
  for (const Device* device : devices) {
    std::optional<MemoryRegion>& region = regions_.emplace_back();
    std::optional<Error>& failure = failures_.emplace_back();
    try {
      region.emplace(*device, memory, bytes, access);
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
  for (const auto& failure : failures_)
    reasons += (reasons.empty() ? "" : " ") + std::string(failure->what());
  throw Error("register",
              std::to_string(bytes) + " bytes on any of " + std::to_string(devices.size()) + " devices",
              "none reaches them", reasons);
}

MemoryView RegionSet::View(size_t device) const {
  if (!Has(device)) throw *failures_[device];
  return regions_[device]->View();
}

}  // namespace warpverbs::host
