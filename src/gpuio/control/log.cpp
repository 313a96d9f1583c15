#include "gpuio/control/log.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "gpuio/control/letters.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr std::array<std::pair<std::string_view, LogLevel>, 7> kNames{{{"off", LogLevel::kOff},
                                                                       {"error", LogLevel::kError},
                                                                       {"warn", LogLevel::kWarn},
                                                                       {"warning", LogLevel::kWarn},
                                                                       {"info", LogLevel::kInfo},
                                                                       {"debug", LogLevel::kDebug},
                                                                       {"dbg", LogLevel::kDebug}}};

std::atomic<LogLevel>& Level() {
  static std::atomic<LogLevel> level = [] {
    const char* const text = std::getenv("HF3FS_USRBIO_LIB_LOG");
    return ParseLogLevel(text == nullptr ? "" : text).value_or(LogLevel::kWarn);
  }();
  return level;
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (const auto& [known, level] : kNames) {
    if (AreEqualInAnyCase(known, name)) return level;
  }
  return std::nullopt;
}

void SetLogLevel(LogLevel level) { Level() = level; }

void Log(LogLevel level, std::string_view text) noexcept {
  if (level > Level().load(std::memory_order_relaxed)) return;
  constexpr std::array<std::string_view, 5> kPrefixes{"", "error", "warn", "info", "debug"};
  try {
    std::string line = "warpverbs-gpuio: " + std::string(kPrefixes[static_cast<size_t>(level)]) + ": ";
    // A path may have any character: a line stays one line.
    for (const char letter : text) line += static_cast<unsigned char>(letter) < ' ' ? '?' : letter;
    line += '\n';
    const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    static_cast<void>(written);  // a log that cannot be written is lost
  } catch (const std::exception&) {
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
