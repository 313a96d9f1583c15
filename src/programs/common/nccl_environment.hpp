#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace warpverbs::programs {

/// Which ports of which devices may be used, as NCCL_IB_HCA says it. One made without a text allows all.
class HcaFilter {
 public:
  HcaFilter() = default;

  /// @param text  "mlx5_0:1,mlx5_1": devices, or ports of devices, whose names begin so. In front of the list
  /// "=" asks for
  ///              the whole name, "^" for all but these, "^=" for both. Empty: all
  /// @errors  Error: names NCCL_IB_HCA, the text and what is allowed
  /// @source  NVIDIA NCCL user guide, Environment Variables, NCCL_IB_HCA
  static HcaFilter FromText(const std::string& text);

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
  std::vector<Entry> entries_;  // none: all are allowed
};

/// What a program takes where its command line says nothing. Without a variable the library's own defaults
/// stand.
struct NcclEnvironment {
  HcaFilter hca{};
  int gid_index = -1;         ///< NCCL_IB_GID_INDEX; -1: EndpointConfig's, the best
  uint8_t traffic_class = 0;  ///< NCCL_IB_TC
  uint8_t service_level = 0;  ///< NCCL_IB_SL

  std::map<std::string, std::string> texts{};  ///< of the variables that are set, by their names

  /// A variable as it is set; "": it is not.
  std::string TextOf(const std::string& variable) const {
    const auto found = texts.find(variable);
    return found == texts.end() ? "" : found->second;
  }
};

/// Reads NCCL's variables for the fabric, so that a machine that is set up for NCCL is set up for these
/// programs. A variable that is empty counts as not set.
///
/// @param get  answers the value of a variable or nullptr; the process's environment by default
/// @errors  Error: names the variable, its value and what is allowed
/// @source  NVIDIA NCCL user guide, Environment Variables
NcclEnvironment ReadNcclEnvironment(const std::function<const char*(const char*)>& get = {});

}  // namespace warpverbs::programs
