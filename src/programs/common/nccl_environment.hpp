#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace warpverbs::programs {

/// The ports that NCCL_IB_HCA allows. A default-constructed filter allows all.
class HcaFilter {
 public:
  HcaFilter() = default;

  /// Parses the value of NCCL_IB_HCA.
  ///
  /// @param text  "mlx5_0:1,mlx5_1": prefixes of device names, each with an optional port. A leading "="
  ///              matches whole names, "^" excludes the list, "^=" does both. Empty: allows all
  /// @errors  Error: names NCCL_IB_HCA, the text and what is allowed
  /// @source  NVIDIA NCCL user guide, Environment Variables, NCCL_IB_HCA
  static HcaFilter Parse(const std::string& text);

  /// @param name  "mlx5_0"
  /// @param port  from 1
  bool Allows(std::string_view name, uint8_t port) const;

 private:
  struct Entry {
    std::string name{};
    uint8_t port = 0;  // 0: any
  };

  bool excludes_ = false;
  bool whole_names_ = false;
  std::vector<Entry> entries_;  // empty: allows all
};

/// NCCL's variables for RDMA devices: a program's defaults for what its command line leaves out. Without a
/// variable, the library's default applies.
struct NcclEnvironment {
  HcaFilter hca{};
  int gid_index = -1;         ///< NCCL_IB_GID_INDEX; -1: the best
  uint8_t traffic_class = 0;  ///< NCCL_IB_TC
  uint8_t service_level = 0;  ///< NCCL_IB_SL

  std::map<std::string, std::string> texts{};  ///< values of the variables that are set, by name

  /// Returns the value of a variable; "" if it is not set.
  std::string Text(const std::string& variable) const {
    const auto found = texts.find(variable);
    return found == texts.end() ? "" : found->second;
  }
};

/// Reads NCCL's variables, so that a machine that is set up for NCCL is set up for these programs. An empty
/// variable counts as unset.
///
/// @param get  returns the value of a variable or nullptr; the process's environment by default
/// @errors  Error: names the variable, its value and what is allowed
/// @source  NVIDIA NCCL user guide, Environment Variables
NcclEnvironment ReadNcclEnvironment(const std::function<const char*(const char*)>& get = {});

}  // namespace warpverbs::programs
