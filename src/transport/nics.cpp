#include "nics.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "host/device/owner_process.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/topology.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

void Check(int device, uint32_t max_nics) {
  const std::string object = "the NICs of device " + std::to_string(device);
  if (device < 0) throw host::Error("find", object, "the number is negative", "Count devices from 0");
  if (max_nics == 0 || max_nics > AccessKey::kMaxNics) {
    throw host::Error("find", object, "it cannot have " + std::to_string(max_nics) + " of them",
                      "Ask for 1 to " + std::to_string(AccessKey::kMaxNics));
  }
}

std::vector<std::string> NearestNames(int gpu, uint32_t max_nics) {
  const host::PciAddress address = host::PciAddress::Parse(host::Gpu(gpu).pci_address());
  host::Topology topology = host::ReadTopology();
  std::vector<host::PciAddress> gpus{address};
  for (const host::PciFunction& other : topology.gpus) {
    if (other.address != address) gpus.push_back(other.address);
  }
  std::vector<std::string> names;
  for (const host::GpuNics& assigned : host::AssignNics(topology, gpus, {.nics_per_gpu = max_nics})) {
    if (assigned.gpu != address) continue;
    for (const host::NicChoice& nic : assigned.nics) names.push_back(nic.name);
  }
  return names;
}

bool HasActivePort(const std::string& name) {
  try {
    static_cast<void>(host::Device(name).ActivePort());
    return true;
  } catch (const host::Error&) {
    return false;
  }
}

std::vector<std::string> NamesFrom(int first, uint32_t max_nics) {
  std::vector<std::string> names = host::DeviceNames();
  std::erase_if(names, [](const std::string& name) { return !HasActivePort(name); });
  if (names.empty()) return {host::FirstActiveDevice()};  // throws, with the state of all ports
  std::rotate(names.begin(), names.begin() + first % static_cast<int>(names.size()), names.end());
  names.resize(std::min<size_t>(names.size(), max_nics));
  return names;
}

/// The NICs that are open in this process, each as long as it is used.
struct OpenNics {
  sync::Mutex mutex;
  std::map<std::string, std::weak_ptr<host::Device>> devices WARPVERBS_GUARDED_BY(mutex);
  /// By device and max_nics.
  std::map<std::pair<int, uint32_t>, std::weak_ptr<Nics>> nics WARPVERBS_GUARDED_BY(mutex);
};

OpenNics& AllOpenNics() {
  static const host::PerProcess<OpenNics> opened;
  return *opened;
}
[[maybe_unused]] const OpenNics& made_before_threads = AllOpenNics();

std::vector<const host::Device*> Pointers(const std::vector<std::shared_ptr<host::Device>>& devices) {
  std::vector<const host::Device*> pointers;
  pointers.reserve(devices.size());
  for (const auto& device : devices) pointers.push_back(device.get());
  return pointers;
}

}  // namespace

Nics::Nics(std::vector<std::shared_ptr<host::Device>> devices)
    : devices_(std::move(devices)),
      cache_(Pointers(devices_), {.access = {.remote_read = true, .remote_write = true}}),
      read_only_cache_(Pointers(devices_), {.access = {.local_write = false, .remote_read = true}}) {}

std::vector<std::string> Nics::NamesOf(int device, uint32_t max_nics) {
  Check(device, max_nics);
  return host::Gpu::Count() > 0 ? NearestNames(device, max_nics) : NamesFrom(device, max_nics);
}

std::shared_ptr<Nics> Nics::Of(int device, uint32_t max_nics) {
  Check(device, max_nics);
  OpenNics& opened = AllOpenNics();
  const sync::LockGuard lock(opened.mutex);
  // NICs in use stay those of the device, even if their ports go down.
  std::weak_ptr<Nics>& known = opened.nics[{device, max_nics}];
  if (auto nics = known.lock()) return nics;
  const std::vector<std::string> names = NamesOf(device, max_nics);
  std::vector<std::shared_ptr<host::Device>> devices;
  for (const std::string& name : names) {
    std::weak_ptr<host::Device>& open = opened.devices[name];
    devices.push_back(open.lock());
    if (devices.back() == nullptr) open = devices.back() = std::make_shared<host::Device>(name);
  }
  std::shared_ptr<Nics> nics(new Nics(std::move(devices)));
  known = nics;
  return nics;
}

}  // namespace warpverbs::inline v0_2::transport
