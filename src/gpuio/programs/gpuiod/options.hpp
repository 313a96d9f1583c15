#pragma once

#include <chrono>
#include <optional>
#include <variant>

#include "common/command_line.hpp"
#include "gpuio/control/log.hpp"
#include "gpuio/daemon/daemon.hpp"
#include "gpuio/files/file_client.hpp"
#include "gpuio/mount/mount.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The command line of warpverbs-gpuiod.
struct GpuiodOptions {
  DaemonConfig daemon{};
  FileClientConfig files{};
  std::optional<MountConfig> mount{};  ///< empty: the mount is an ordinary folder
  LogLevel log_level = LogLevel::kWarn;
  std::optional<std::chrono::seconds> statistics{};  ///< time between two lines
};

/// Parses `PATH=HOST:PORT[,HOST:PORT...]`. An IPv6 address is in brackets.
///
/// @return  false: it has another form
bool ParseMount(std::string_view text, std::string& path, std::vector<ServerAddress>& servers);

/// Parses a command line.
std::variant<GpuiodOptions, programs::EarlyExit> ParseGpuiodOptions(int argc, const char* const* argv);

}  // namespace warpverbs::inline v0_2::gpuio
