#include "warpverbs/host/rail_set.hpp"

#include <algorithm>

#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {

RailSet::RailSet(std::span<const Device* const> devices, const RailSetConfig& config)
    : cut_bytes_(config.cut_bytes) {
  const uint64_t rails = uint64_t{devices.size()} * config.queue_pairs;
  if (rails == 0 || rails > device::kMaxRails) {
    throw Error("create", "a set of rails",
                std::to_string(devices.size()) + " NICs with " + std::to_string(config.queue_pairs) +
                    " queue pairs each make " + std::to_string(rails) + " rails",
                "Choose 1 to " + std::to_string(device::kMaxRails) + " of them");
  }
  if (cut_bytes_ == 0) throw Error("create", "a set of rails", "cut_bytes is 0", "Choose at least 1");
  for (uint32_t i = 0; i < config.queue_pairs; ++i) {
    for (const Device* device : devices)
      endpoints_.push_back(std::make_unique<Endpoint>(*device, config.endpoint));
  }
}

RailSet::~RailSet() = default;

uint32_t RailSet::size() const { return static_cast<uint32_t>(endpoints_.size()); }
Endpoint& RailSet::operator[](uint32_t rail) const { return *endpoints_.at(rail); }

device::RailsView RailSet::View() const {
  device::RailsView view{.queues = {}, .count = size(), .cut_bytes = cut_bytes_};
  for (uint32_t rail = 0; rail < size(); ++rail) view.queues[rail] = endpoints_[rail]->View();
  return view;
}

device::RailLocalMemory RailSet::Local(const RegionSet& regions) const {
  device::RailLocalMemory memory{};
  for (uint32_t rail = 0; rail < size(); ++rail) {
    const device::LocalMemory local = regions.View(endpoints_[rail]->device()).Local();
    memory.addr = local.addr;
    memory.bytes = local.bytes;
    memory.lkeys[rail] = local.lkey;
  }
  return memory;
}

device::RailRemoteMemory RailSet::Remote(const RegionSet& regions) const {
  device::RailRemoteMemory memory{};
  for (uint32_t rail = 0; rail < size(); ++rail) {
    const device::RemoteMemory remote = regions.View(endpoints_[rail]->device()).Remote();
    memory.addr = remote.addr;
    memory.rkeys[rail] = remote.rkey;
  }
  return memory;
}

std::string RailSet::Describe() const {
  std::string text = std::to_string(size()) + " rails; writes of " + std::to_string(2 * cut_bytes_) +
                     " bytes or more are cut over them\n";
  for (uint32_t rail = 0; rail < size(); ++rail) {
    text += "rail " + std::to_string(rail) + ", " + endpoints_[rail]->device().name() + ":\n" +
            endpoints_[rail]->Describe();
  }
  return text;
}

std::vector<std::unique_ptr<Device>> OpenNics(const GpuNics& nics) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.reserve(nics.nics.size());
  for (const NicChoice& nic : nics.nics) devices.push_back(std::make_unique<Device>(nic.name));
  return devices;
}

void ConnectAll(std::span<RailSet* const> sets, Exchange& exchange, Deadline deadline,
                const ConnectOptions& options) {
  std::string sizes;  // one word, so that sets of other sizes are no endpoints that happen to be as many
  std::vector<Endpoint*> endpoints;
  for (RailSet* set : sets) {
    sizes += (sizes.empty() ? "" : ",") + std::to_string(set->size());
    for (uint32_t rail = 0; rail < set->size(); ++rail) endpoints.push_back(&(*set)[rail]);
  }
  const std::string theirs = exchange.Swap(sizes, "the sizes of the sets of rails", deadline);
  if (theirs != sizes) {
    throw Error("connect", "sets of rails",
                "they have " + sizes + " rails, and those of " + exchange.PeerName() + " have " +
                    PrintableText(theirs),
                "Choose as many NICs and queue pairs on both sides");
  }
  ConnectAll(std::span<Endpoint* const>(endpoints), exchange, deadline, options);
}

}  // namespace warpverbs::inline v0_2::host
