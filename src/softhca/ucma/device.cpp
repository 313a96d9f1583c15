#include "ucma/device.hpp"

#include <algorithm>
#include <random>
#include <string>

#include "core/pacing.hpp"
#include "ucma/routing.hpp"
#include "uverbs/errors.hpp"

namespace softhca::ucma {

Device::Device(Engine& engine, WireNetwork& network)
    : engine_(engine),
      network_(network),
      manager_(network.management(), NowNs, std::random_device{}(), ProcessAt) {
  const auto lock = engine_.Pause();
  network_.SetManagementAgent(&manager_);
}

Device::~Device() {
  const auto lock = engine_.Pause();
  network_.SetManagementAgent(nullptr);
}

Id& Device::MakeId(File& file, uint64_t uid, cm::PortSpace space) {
  do ++last_id_;
  while (last_id_ == 0 || ids_.contains(last_id_));
  const Id::Config config{this, &file, last_id_, uid, space};
  return *ids_.emplace(last_id_, std::make_unique<Id>(config)).first->second;
}

Id& Device::Find(uint32_t number) {
  const auto found = ids_.find(number);
  if (found == ids_.end()) throw uverbs::Errno(ENOENT, "id " + std::to_string(number) + " does not exist");
  return *found->second;
}

Id& Device::Get(const File& file, uint32_t number) {
  Id& id = Find(number);
  if (&id.file() != &file)
    throw uverbs::Errno(EINVAL, "id " + std::to_string(number) + " belongs to another event channel");
  return id;
}

uint32_t Device::Destroy(Id& id) {
  const uint32_t reported = id.events_reported();
  for (const Event& event : id.file().Withdraw(id.number())) {
    if (const auto request = ids_.find(event.request); request != ids_.end()) ids_.erase(request);
  }
  ids_.erase(id.number());
  return reported;
}

void Device::Close(const File& file) {
  std::erase_if(ids_, [&](const auto& entry) { return &entry.second->file() == &file; });
}

void Device::CloseAll() {
  ids_.clear();
  network_.Poll(NowNs());
}

void Device::Migrate(Id& id, File& to) {
  File& from = id.file();
  id.set_file(to);
  for (const Event& event : from.Withdraw(id.number())) {
    if (const auto request = ids_.find(event.request); request != ids_.end()) request->second->set_file(to);
    to.Push(event);
  }
}

std::optional<Event> Device::TakeEvent(File& file, uint32_t id) {
  auto event = file.Take(id);
  if (event) ids_.at(id)->CountEvent(*event);
  return event;
}

}  // namespace softhca::ucma
