#pragma once

#include <chrono>
#include <optional>
#include <variant>

#include "gpuio/server/server.hpp"
#include "programs/common/command_line.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The settings of warpverbs-filed.
struct FiledOptions {
  FileServerConfig server{};
  std::optional<std::chrono::seconds> statistics{};  ///< time between lines of statistics
};

std::variant<FiledOptions, programs::EarlyExit> ParseFiledOptions(int argc, char** argv);

}  // namespace warpverbs::inline v0_2::gpuio
