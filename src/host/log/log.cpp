#include "log/log.hpp"

#include <strings.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "log/log_writer.hpp"
#include "sync/mutex.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr std::array kNames{"off", "error", "warn", "info", "debug", "trace"};  // by LogLevel

const char* NameOf(LogLevel level) { return kNames[static_cast<size_t>(level)]; }

sync::Mutex warned_mutex;
const ForkSafe<warned_mutex> fork_safe_warnings;

/// Returns whether this is the first warning about the subject.
bool IsFirstWarning(const std::string& subject) {
  const sync::LockGuard lock(warned_mutex);
  static auto* const subjects =
      new std::set<std::string>;  // never destroyed: threads may warn until the program ends
  return subjects->insert(subject).second;
}

LogLevel ReadLevel() noexcept {
  const char* const name = std::getenv("WARPVERBS_LOG");
  if (name == nullptr || *name == '\0') return kDefaultLogLevel;
  if (const auto level = ParseLogLevel(name)) return *level;
  char line[200];
  std::snprintf(line, sizeof line,
                "[warpverbs] [%s] WARPVERBS_LOG=%.40s is not a level: use off, error, warn, info, debug or "
                "trace. Using %s.\n",
                NameOf(LogLevel::kWarn), name, NameOf(kDefaultLogLevel));
  WriteToStderr(line);
  return kDefaultLogLevel;
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (size_t level = 0; level < kNames.size(); ++level) {
    const std::string_view known = kNames[level];
    if (known.size() == name.size() && strncasecmp(known.data(), name.data(), name.size()) == 0)
      return static_cast<LogLevel>(level);
  }
  return std::nullopt;
}

bool IsLogged(LogLevel level) noexcept {
  static const LogLevel most = ReadLevel();
  return level <= most;
}

void WriteLog(LogLevel level, std::string_view text) {
  std::string line = std::string("[warpverbs] [") + NameOf(level) + "] ";
  for (const char letter : text) {
    const bool is_indent = letter == ' ' && line.ends_with(' ');
    if (letter == '\n') {
      line += "; ";
    } else if (!is_indent) {
      line += static_cast<unsigned char>(letter) < ' ' || letter == 0x7f ? '?' : letter;
    }
  }
  if (line.ends_with("; ")) line.resize(line.size() - 2);
  line += '\n';
  WriteToStderr(line);
}

void WarnOnce(const std::string& subject, const std::string& text) noexcept {
  if (!IsLogged(LogLevel::kWarn)) return;
  try {
    if (IsFirstWarning(subject)) WriteLog(LogLevel::kWarn, subject + ": " + text);
  } catch (const std::exception&) {  // not logged, like in Log()
  }
}

}  // namespace warpverbs::inline v0_2::host
