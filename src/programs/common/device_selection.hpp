#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/nccl_environment.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_config.hpp"

namespace warpverbs::programs {

/// Options of a command line that select a device and its path. They take precedence over NCCL's variables.
struct DeviceOptions {
  std::string nic{};
  std::optional<int> gid_index{};
  std::optional<int> traffic_class{};
  std::optional<int> service_level{};
};

/// A port of a NIC.
struct NicAndPort {
  std::string nic{};
  uint8_t port = 0;  ///< 0: the first active port
};

/// The NIC, port, GID, traffic class and service level that a program uses, each with its source.
class DeviceSelection {
 public:
  /// Selects the library's defaults.
  DeviceSelection() = default;

  DeviceSelection(const DeviceOptions& options, const NcclEnvironment& environment);

  /// Returns whether a port may be used.
  bool Allows(std::string_view nic, uint8_t port) const;

  /// The variable that excludes some ports, for example "NCCL_IB_HCA=mlx5_1"; "" if all ports are allowed.
  const std::string& filter() const { return filter_; }

  int gid_index() const { return gid_index_.value; }  ///< -1: the best
  int traffic_class() const { return traffic_class_.value; }
  int service_level() const { return service_level_.value; }

  /// Returns the first active port that is allowed.
  ///
  /// @errors  Error: no allowed port is active
  NicAndPort FirstActivePort() const;

  /// Returns the settings of an endpoint on a port.
  host::EndpointConfig Config(uint8_t port) const;

  /// Returns the selection and its sources, for example "mlx5_0 port 1 (from NCCL_IB_HCA=mlx5_0), GID 3,
  /// traffic class 106 (from NCCL_IB_TC=106), service level 0".
  ///
  /// @param gid_index  the GID in use; -1 if it is unknown: prints "the best GID"
  std::string Describe(const NicAndPort& where, int gid_index) const;

 private:
  struct Setting {
    int value = 0;
    std::string source{};  // "": the default
  };
  static Setting Choose(const char* option, const std::optional<int>& given,
                        const NcclEnvironment& environment, const char* variable, int value);

  std::string nic_{};
  HcaFilter hca_{};
  std::string filter_{};
  Setting gid_index_{-1};
  Setting traffic_class_{};
  Setting service_level_{};
};

/// Returns the kernel's name for a device's board, for example "MT_0000000838"; "" if there is none.
std::string BoardOf(const host::Device& device);

/// Returns whether a board is softhca. Its timings measure processors, not a network.
inline bool IsSoftwareBoard(std::string_view board) { return board.starts_with("SOFTHCA"); }

}  // namespace warpverbs::programs
