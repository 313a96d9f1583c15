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

uint32_t Device::NextNumber() {
  do ++last_id_;
  while (last_id_ == 0 || ids_.contains(last_id_) || memberships_.contains(last_id_));
  return last_id_;
}

Id& Device::MakeId(File& file, uint64_t uid, cm::PortSpace space) {
  const Id::Config config{this, &file, NextNumber(), uid, space};
  return *ids_.emplace(config.number, std::make_unique<Id>(config)).first->second;
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
  for (const auto& [number, membership] : memberships_) {
    if (membership.id != &id) continue;
    for (const Event& event : from.Withdraw(number)) to.Push(event);
  }
}

uint32_t Device::Join(Id& id, const IpPort& group, uint64_t uid) {
  rdma_ucm_event_resp response = id.DescribeGroup(group);
  const uint32_t number = NextNumber();
  response.uid = uid;
  response.id = number;
  response.event = static_cast<uint32_t>(EventKind::kMulticastJoined);
  memberships_.emplace(number, Membership{&id});
  id.file().Push({.id = number, .response = response});
  return number;
}

uint32_t Device::Leave(const File& file, uint32_t number) {
  const auto found = memberships_.find(number);
  if (found == memberships_.end())
    throw uverbs::Errno(ENOENT, "membership " + std::to_string(number) + " does not exist");
  const Membership membership = found->second;
  if (&membership.id->file() != &file)
    throw uverbs::Errno(EINVAL, "membership " + std::to_string(number) + " belongs to another event channel");
  membership.id->file().Withdraw(number);
  memberships_.erase(found);
  return membership.events_reported;
}

void Device::LeaveAll(const Id& id) {
  std::erase_if(memberships_, [&](const auto& entry) {
    if (entry.second.id != &id) return false;
    id.file().Withdraw(entry.first);
    return true;
  });
}

std::optional<Event> Device::TakeEvent(File& file, uint32_t id) {
  auto event = file.Take(id);
  if (!event) return event;
  const auto membership = memberships_.find(id);
  if (membership == memberships_.end()) {
    ids_.at(id)->CountEvent(*event);
  } else {
    ++membership->second.events_reported;
    membership->second.id->CountEvent(*event);
  }
  return event;
}

}  // namespace softhca::ucma
