#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

/// The log of the control path on stderr: one line for each event and decision. WARPVERBS_LOG selects the
/// level.
///
/// Nothing here is called on the data path.
namespace warpverbs::inline v0_2::host {

/// Each level includes the ones before it.
enum class LogLevel : uint8_t {
  kOff,
  kError,  ///< a failure that no exception reports
  kWarn,   ///< works, but less well than it could
  kInfo,   ///< devices, choices, connections, failed registrations
  kDebug,  ///< libraries and registrations, with their method
  kTrace,  ///< each export and mapping for a GPU
};
inline constexpr LogLevel kDefaultLogLevel = LogLevel::kWarn;

/// Parses a level's name in lower or upper case.
std::optional<LogLevel> ParseLogLevel(std::string_view name);

/// Returns whether a level is logged. The first call reads WARPVERBS_LOG.
bool IsLogged(LogLevel level) noexcept;

/// Writes one line to stderr, whatever characters the text has; see WriteToStderr().
void WriteLog(LogLevel level, std::string_view text);

/// Logs the result of text(), which is called only if the level is logged.
///
/// Ignores failures: setting up continues without the line.
template <class Text>
void Log(LogLevel level, const Text& text) noexcept {
  if (!IsLogged(level)) return;
  try {
    WriteLog(level, text());
  } catch (const std::exception&) {
  }
}

/// Warns once per process about a subject, however many endpoints or regions it concerns.
void WarnOnce(const std::string& subject, const std::string& text) noexcept;

}  // namespace warpverbs::inline v0_2::host
