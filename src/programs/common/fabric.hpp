#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/nccl_environment.hpp"
#include "warpverbs/host/endpoint_config.hpp"

namespace warpverbs::programs {

/// What a command line says of the fabric. It goes before NCCL's variables.
struct FabricOptions {
  std::string nic{};
  std::optional<int> gid_index{};
  std::optional<int> traffic_class{};
  std::optional<int> service_level{};
};

/// A port of a NIC.
struct NicAndPort {
  std::string nic{};
  uint8_t port = 0;  ///< 0: the first active one
};

/// What of the fabric a program uses, and who said so.
class Fabric {
 public:
  /// What the library takes by itself.
  Fabric() = default;

  Fabric(const FabricOptions& options, const NcclEnvironment& environment);

  /// Whether a port may be used at all.
  bool Allows(std::string_view nic, uint8_t port) const;

  /// Whether some port may not, and who said so: "NCCL_IB_HCA=mlx5_1"; "": all may.
  const std::string& ports_by() const { return ports_by_; }

  int gid_index() const { return gid_index_.value; }  ///< -1: the best
  int traffic_class() const { return traffic_class_.value; }
  int service_level() const { return service_level_.value; }

  /// The first active port that may be used.
  ///
  /// @errors  Error: there is none
  NicAndPort FirstActivePort() const;

  /// How an endpoint on a port is made.
  host::EndpointConfig Config(uint8_t port) const;

  /// "mlx5_0 port 1 (by NCCL_IB_HCA=mlx5_0), GID 3, traffic class 106 (by NCCL_IB_TC=106), service level 0"
  ///
  /// @param gid_index  that is taken; -1: not known, the best
  std::string Describe(const NicAndPort& where, int gid_index) const;

 private:
  struct Setting {
    int value = 0;
    std::string by{};  // "": nobody
  };
  static std::string By(const std::string& by) { return by.empty() ? "" : " (by " + by + ")"; }
  static Setting Choose(const char* option, const std::optional<int>& given,
                        const NcclEnvironment& environment, const char* variable, int value);

  std::string nic_{};
  HcaFilter hca_{};
  std::string ports_by_{};
  Setting gid_index_{-1};
  Setting traffic_class_{};
  Setting service_level_{};
};

}  // namespace warpverbs::programs
