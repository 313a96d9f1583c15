#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

/// What setting up has done and why: a line an event, on stderr. WARPVERBS_LOG chooses how much of it.
///
/// Nothing here is called where data move: who posts, polls and rings doorbells has no time for it.
namespace warpverbs::host {

/// Each has all before it.
enum class LogLevel : uint8_t {
  kOff,
  kError,  ///< something has ended, and no exception says so
  kWarn,   ///< it works, and less well than it might
  kInfo,   ///< what was opened, chosen and connected, and what could not be registered
  kDebug,  ///< what was loaded and registered, and how
  kTrace,  ///< each export and mapping for a GPU
};
inline constexpr LogLevel kDefaultLogLevel = LogLevel::kWarn;

/// The level of a name, in small letters or capitals; empty: there is none.
std::optional<LogLevel> ParseLogLevel(std::string_view name);

/// Whether what is of a level is logged. WARPVERBS_LOG is read by the first call and not again.
bool IsLogged(LogLevel level) noexcept;

/// Writes one line, whatever is in the text; as WriteToStderr().
void WriteLog(LogLevel level, std::string_view text);

/// Logs what text() answers, which is asked only where it is logged.
///
/// What fails is not logged, and nothing else comes of it: setting up goes on without.
template <class Text>
void Log(LogLevel level, const Text& text) noexcept {
  if (!IsLogged(level)) return;
  try {
    WriteLog(level, text());
  } catch (const std::exception&) {
  }
}

/// Warns once in the life of the process of each subject, however many endpoints or regions it concerns.
void WarnOnce(const std::string& subject, const std::string& text) noexcept;

}  // namespace warpverbs::host
