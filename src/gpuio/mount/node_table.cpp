#include "gpuio/mount/node_table.hpp"

#include <algorithm>

namespace warpverbs::inline v0_2::gpuio {

uint64_t NodeTable::Lookup(uint64_t parent, const std::string& name, uint64_t inode) {
  auto found = by_name_.find({parent, name});
  if (found != by_name_.end() && nodes_[found->second].inode != inode) {
    ++nodes_[parent].lookups;  // keeps it until the new node is in it
    Remove(parent, name);
    --nodes_[parent].lookups;
    found = by_name_.end();
  }
  const uint64_t node = found != by_name_.end() ? found->second : next_++;
  if (found == by_name_.end()) Attach(node, {parent, name});
  nodes_[node].inode = inode;
  ++nodes_[node].lookups;
  return node;
}

void NodeTable::Forget(uint64_t node, uint64_t lookups) {
  const auto found = nodes_.find(node);
  if (node == kRoot || found == nodes_.end()) return;
  found->second.lookups -= std::min(found->second.lookups, lookups);
  DropIfUnused(node);
}

std::optional<std::string> NodeTable::Path(uint64_t node) const {
  std::string path;
  while (node != kRoot) {
    const auto found = nodes_.find(node);
    if (found == nodes_.end() || !found->second.name) return std::nullopt;
    const auto& [parent, name] = *found->second.name;
    path = path.empty() ? name : name + "/" + path;
    node = parent;
  }
  return path;
}

std::optional<std::string> NodeTable::Path(uint64_t parent, const std::string& name) const {
  const auto folder = Path(parent);
  if (!folder) return std::nullopt;
  return folder->empty() ? name : *folder + "/" + name;
}

void NodeTable::Remove(uint64_t parent, const std::string& name) {
  const auto found = by_name_.find({parent, name});
  if (found == by_name_.end()) return;
  const uint64_t node = found->second;
  Detach(node);
  DropIfUnused(node);
}

void NodeTable::Rename(uint64_t parent, const std::string& name, uint64_t new_parent,
                       const std::string& new_name, bool exchange) {
  const auto from = by_name_.find({parent, name}), to = by_name_.find({new_parent, new_name});
  const uint64_t moved = from != by_name_.end() ? from->second : 0;
  const uint64_t replaced = to != by_name_.end() ? to->second : 0;
  if (moved == replaced) return;
  if (moved != 0) Detach(moved);
  if (replaced != 0) Detach(replaced);
  if (moved != 0) Attach(moved, {new_parent, new_name});
  if (replaced != 0 && exchange) Attach(replaced, {parent, name});
  if (replaced != 0) DropIfUnused(replaced);
}

void NodeTable::Attach(uint64_t node, Name name) {
  ++nodes_[name.first].children;
  by_name_[name] = node;
  nodes_[node].name = std::move(name);
}

void NodeTable::Detach(uint64_t node) {
  Node& of = nodes_[node];
  const uint64_t parent = of.name->first;
  by_name_.erase(*of.name);
  of.name.reset();
  --nodes_[parent].children;
  DropIfUnused(parent);
}

void NodeTable::DropIfUnused(uint64_t node) {
  const auto found = nodes_.find(node);
  if (node == kRoot || found == nodes_.end()) return;
  if (found->second.lookups != 0 || found->second.children != 0) return;
  if (found->second.name) {
    const uint64_t parent = found->second.name->first;
    by_name_.erase(*found->second.name);
    nodes_.erase(found);
    --nodes_[parent].children;
    DropIfUnused(parent);
  } else {
    nodes_.erase(found);
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
