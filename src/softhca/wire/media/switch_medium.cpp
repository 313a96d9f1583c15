#include "wire/media/switch_medium.hpp"

#include <algorithm>

namespace softhca {

void SwitchMedium::Send(std::span<const uint8_t> frame) {
  bool taken = false;
  for (const Branch& branch : branches_) {
    if (!branch.takes(frame)) continue;
    branch.medium->Send(frame);
    taken = true;
    if (!branch.copies) break;
  }
  if (!taken) Lose("nothing carries such frames");
}

void SwitchMedium::SetGroups(const std::set<Gid>& groups) {
  for (const Branch& branch : branches_) branch.medium->SetGroups(groups);
}

void SwitchMedium::ReportLosses(const LossSink& sink) {
  Medium::ReportLosses(sink);
  for (const Branch& branch : branches_) branch.medium->ReportLosses(sink);
}

void SwitchMedium::Flush() {
  for (const Branch& branch : branches_) branch.medium->Flush();
}

size_t SwitchMedium::Receive(size_t most, const FrameSink& sink) {
  size_t count = 0;
  for (const Branch& branch : branches_) count += branch.medium->Receive(most, sink);
  return count;
}

void SwitchMedium::AddDescriptors(std::vector<int>& descriptors) const {
  for (const Branch& branch : branches_) branch.medium->AddDescriptors(descriptors);
}

bool SwitchMedium::HasUnsent() const {
  return std::any_of(branches_.begin(), branches_.end(),
                     [](const Branch& branch) { return branch.medium->HasUnsent(); });
}

bool SwitchMedium::HasUnsentTo(const Mac& destination) const {
  return std::any_of(branches_.begin(), branches_.end(),
                     [&](const Branch& branch) { return branch.medium->HasUnsentTo(destination); });
}

uint64_t SwitchMedium::NextNs() const {
  uint64_t next = UINT64_MAX;
  for (const Branch& branch : branches_) next = std::min(next, branch.medium->NextNs());
  return next;
}

}  // namespace softhca
