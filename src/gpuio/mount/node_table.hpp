#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The names that the kernel knows files by: numbers, each of which stands for a name in a folder.
class NodeTable {
 public:
  static constexpr uint64_t kRoot = 1;

  NodeTable() { nodes_[kRoot] = {.lookups = 1}; }

  /// Returns the number of a name, and counts that the kernel was told it.
  ///
  /// @param inode  the server's number of the file. A name that had another one gets another node: somebody
  ///               else has replaced the file, which may still be open here.
  uint64_t Lookup(uint64_t parent, const std::string& name, uint64_t inode);

  /// Takes back a number of lookups. A node that has none left, and nothing below it, goes.
  void Forget(uint64_t node, uint64_t lookups);

  /// Returns a node's path; empty: its name was removed.
  std::optional<std::string> Path(uint64_t node) const;

  /// Returns the path of a name in a folder; empty: the folder was removed.
  std::optional<std::string> Path(uint64_t parent, const std::string& name) const;

  /// Follows the removal of a name.
  void Remove(uint64_t parent, const std::string& name);

  /// Follows a rename, or an exchange of two names.
  void Rename(uint64_t parent, const std::string& name, uint64_t new_parent, const std::string& new_name,
              bool exchange);

  size_t size() const { return nodes_.size(); }

 private:
  using Name = std::pair<uint64_t, std::string>;  // folder, name

  struct Node {
    std::optional<Name> name{};  // empty: the root, or a node whose name was removed
    uint64_t inode = 0;
    uint64_t lookups = 0;
    size_t children = 0;
  };

  void Detach(uint64_t node);
  void Attach(uint64_t node, Name name);
  void DropIfUnused(uint64_t node);

  std::unordered_map<uint64_t, Node> nodes_;
  std::map<Name, uint64_t> by_name_;
  uint64_t next_ = kRoot + 1;
};

}  // namespace warpverbs::inline v0_2::gpuio
