#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Each level includes the ones before it.
enum class LogLevel : uint8_t { kOff, kError, kWarn, kInfo, kDebug };

/// Parses a level's name in lower or upper case; "WARNING" and "DBG" are names, too, as 3FS has them.
std::optional<LogLevel> ParseLogLevel(std::string_view name);

/// Sets the level, which is HF3FS_USRBIO_LIB_LOG, or warn, until then.
void SetLogLevel(LogLevel level);

/// Writes one line to stderr if the level is logged. Never throws.
void Log(LogLevel level, std::string_view text) noexcept;

}  // namespace warpverbs::inline v0_2::gpuio
