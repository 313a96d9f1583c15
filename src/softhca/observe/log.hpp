#pragma once

#include <string>

#include "core/observer.hpp"
#include "observe/output_file.hpp"

namespace softhca {

/// Log level; each includes the levels before it.
enum class LogLevel : uint8_t {
  kWarning,  ///< refused commands, error completions, dropped frames
  kInfo,     ///< state changes of queue pairs and links
  kDebug,    ///< negative acknowledgements, timeouts, stalled peers
  kTrace,    ///< every packet, every entry
};

/// Level and destination of a log.
struct LogSettings {
  LogLevel level = LogLevel::kWarning;
  std::string file{};  ///< empty: standard error
};

/// Parses LEVEL or LEVEL,FILE.
///
/// @errors  std::invalid_argument: names the option and the remedy
LogSettings ParseLog(const std::string& text);

/// Logs each event as a line.
///
/// Each line is written at once. So it survives a crash, and a forked child inherits no lock. Where a slow
/// reader has lost lines, the log says how many.
class Log : public Observer {
 public:
  /// @errors  std::runtime_error: the file cannot be written
  explicit Log(const LogSettings& settings);

  void OnState(const QueuePair& qp, mlx5::QpState from) override;
  void OnLink(const Hca& hca, uint8_t port, bool up) override;
  void OnFetch(const QueuePair& qp, uint16_t index, const Request& request) override;
  void OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) override;
  void OnPacket(const QueuePair& qp, Direction direction, const Packet& packet,
                uint64_t payload_bytes) override;
  void OnTimeout(const QueuePair& qp) override;
  void OnStalledPeer(const QueuePair& qp) override;
  void OnDrop(const char* reason, uint64_t frames) override;
  void OnLostEvent() override;
  void OnRefusal(const Hca& hca, const char* command, const char* error, const char* why) override;
  void OnEnd(std::span<const std::unique_ptr<Hca>>) override { file_.End(); }

 private:
  bool Logs(LogLevel level) const { return level <= level_; }
  void Write(LogLevel level, const std::string& text);

  LogLevel level_;
  OutputFile file_;
  uint64_t missing_ = 0;  ///< lines lost since the latest one that was written
  bool lost_event_ = false;
};

}  // namespace softhca
