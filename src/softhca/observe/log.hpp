#pragma once

#include <memory>
#include <string>

#include "core/observer.hpp"
#include "observe/output_file.hpp"

namespace softhca {

/// How much a log tells; each level tells what those before it tell, too.
enum class LogLevel : uint8_t {
  kWarning,  ///< refused commands, error completions, frames that came to nobody
  kInfo,     ///< states of queue pairs, links
  kDebug,    ///< negative acknowledgements, timeouts
  kTrace,    ///< every packet, every entry
};

/// Where a log goes, and how much of it.
struct LogSettings {
  LogLevel level = LogLevel::kWarning;
  std::string file{};  ///< empty: standard error
};

/// Reads LEVEL or LEVEL,FILE.
///
/// @errors  std::invalid_argument: a sentence
LogSettings ParseLog(const std::string& text);

/// Writes a line for each thing that happens.
///
/// A line is written whole by one system call when it happens: it is there whatever happens next, and no lock
/// is left behind in a child.
class Log : public Observer {
 public:
  /// @errors  std::runtime_error: the file cannot be written; a sentence
  explicit Log(const LogSettings& settings);

  void OnState(const QueuePair& qp, mlx5::QpState from) override;
  void OnLink(const Hca& hca, uint8_t port, bool up) override;
  void OnFetch(const QueuePair& qp, uint16_t index, const Request& request) override;
  void OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) override;
  void OnPacket(const QueuePair& qp, Direction direction, const Packet& packet,
                uint64_t payload_bytes) override;
  void OnTimeout(const QueuePair& qp) override;
  void OnDrop(const char* reason) override;
  void OnRefusal(const Hca& hca, const char* command, const char* error, const char* why) override;

 private:
  bool Tells(LogLevel level) const { return level <= level_; }
  void Write(LogLevel level, const std::string& text);

  LogLevel level_;
  std::unique_ptr<OutputFile> file_;  ///< null: standard error
};

}  // namespace softhca
