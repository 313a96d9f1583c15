#include "observe/log.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <utility>

#include "observe/names.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

constexpr std::pair<const char*, LogLevel> kLevels[] = {{"warning", LogLevel::kWarning},
                                                        {"info", LogLevel::kInfo},
                                                        {"debug", LogLevel::kDebug},
                                                        {"trace", LogLevel::kTrace}};

const char* ToString(LogLevel level) { return kLevels[static_cast<size_t>(level)].first; }

/// Seconds from UTC to local time. Asked for when the library is loaded: localtime_r() takes a lock of libc,
/// which stays locked in a child that is forked meanwhile. So a process keeps its time when the clocks
/// change.
const int64_t from_utc = [] {
  const time_t now = time(nullptr);
  tm parts{};
  localtime_r(&now, &parts);
  return int64_t{parts.tm_gmtoff};
}();

/// Returns the local time of day with microseconds.
std::string TimeOfDay() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto seconds = static_cast<int>((now.tv_sec + from_utc) % (24 * 60 * 60));
  char text[64];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%06ld", seconds / 3600, seconds / 60 % 60, seconds % 60,
                now.tv_nsec / 1000);
  return text;
}

std::string Describe(const Packet& packet, uint64_t payload_bytes) {
  std::string text = std::string(ToString(packet.service, packet.op)) + ", PSN " +
                     std::to_string(packet.psn) + ", " + std::to_string(payload_bytes) + " bytes";
  if (HasAckHeader(packet)) {
    char syndrome[32];
    std::snprintf(syndrome, sizeof syndrome, ", syndrome 0x%02x", packet.ack.syndrome);
    text += syndrome;
  }
  return text;
}

bool IsNegative(const Packet& packet) {
  return HasAckHeader(packet) && (packet.ack.syndrome & aeth::kKindMask) != aeth::kAck;
}

}  // namespace

LogSettings ParseLog(const std::string& text) {
  const size_t comma = text.find(',');
  const std::string level = text.substr(0, comma);
  if (comma != std::string::npos && comma + 1 == text.size()) {
    throw std::invalid_argument("--log " + text + ": the file name after the comma is missing");
  }
  for (const auto& [name, value] : kLevels) {
    if (level == name) return {value, comma == std::string::npos ? "" : text.substr(comma + 1)};
  }
  throw std::invalid_argument("--log " + text + ": '" + level +
                              "' is not a level; use warning, info, debug or trace");
}

Log::Log(const LogSettings& settings) : level_(settings.level), file_(settings.file, "lines") {}

void Log::Write(LogLevel level, const std::string& text) {
  const std::string start = TimeOfDay() + " " + std::to_string(getpid()) + " softhca ";
  std::string line = start + ToString(level) + ": " + text + "\n";
  if (missing_ != 0) {
    line = start + "warning: the reader was too slow; lines missing here: " + std::to_string(missing_) +
           "\n" + line;
  }
  const bool taken = file_.Append({reinterpret_cast<const uint8_t*>(line.data()), line.size()});
  missing_ = taken ? 0 : missing_ + 1;
}

void Log::OnState(const QueuePair& qp, mlx5::QpState from) {
  if (!Logs(LogLevel::kInfo)) return;
  std::string text =
      ToString(qp) + " goes from " + softhca::ToString(from) + " to " + softhca::ToString(qp.state);
  const bool has_peer =
      !IsAddressedByEntry(qp.config.service) && qp.config.service != mlx5::ServiceType::kDct;
  if (qp.state == mlx5::QpState::kRtr && has_peer) {
    char peer[32];
    std::snprintf(peer, sizeof peer, ", peer 0x%x", qp.attributes.remote_qpn);
    text += peer;
  }
  Write(LogLevel::kInfo, text);
}

void Log::OnLink(const Hca& hca, uint8_t port, bool up) {
  if (!Logs(LogLevel::kInfo)) return;
  Write(LogLevel::kInfo,
        hca.config().name + " port " + std::to_string(port) + ": the link is " + (up ? "up" : "down"));
}

void Log::OnFetch(const QueuePair& qp, uint16_t index, const Request& request) {
  if (!Logs(LogLevel::kTrace)) return;
  Write(LogLevel::kTrace, ToString(qp) + " fetches entry " + std::to_string(index) + ": " +
                              softhca::ToString(request.opcode) + " of " + std::to_string(request.bytes) +
                              " bytes");
}

void Log::OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) {
  const std::string entry = ToString(qp) + " entry " + std::to_string(index);
  if (syndrome != mlx5::Syndrome::kNone && syndrome != mlx5::Syndrome::kFlushed) {
    Write(LogLevel::kWarning, entry + " fails: " + mlx5::Describe(syndrome));
  } else if (Logs(LogLevel::kTrace)) {
    Write(LogLevel::kTrace, entry + (syndrome == mlx5::Syndrome::kNone ? " is done" : " is flushed"));
  }
}

void Log::OnPacket(const QueuePair& qp, Direction direction, const Packet& packet, uint64_t payload_bytes) {
  const LogLevel level = IsNegative(packet) ? LogLevel::kDebug : LogLevel::kTrace;
  if (!Logs(level)) return;
  Write(level, ToString(qp) + (direction == Direction::kSent ? " sends " : " receives ") +
                   Describe(packet, payload_bytes));
}

void Log::OnTimeout(const QueuePair& qp) {
  if (Logs(LogLevel::kDebug))
    Write(LogLevel::kDebug, ToString(qp) + " gets no acknowledgement in time and retries");
}

void Log::OnStalledPeer(const QueuePair& qp) {
  if (!Logs(LogLevel::kDebug)) return;
  Write(LogLevel::kDebug, ToString(qp) +
                              " gets no acknowledgement in time and waits on: the peer's engine is stopped "
                              "or busy, or waits for a processor");
}

void Log::OnDrop(const char* reason, uint64_t frames) {
  const std::string what = frames == 1 ? "frame" : std::to_string(frames) + " frames";
  Write(LogLevel::kWarning, what + " dropped: " + reason);
}

void Log::OnLostEvent() {
  if (std::exchange(lost_event_, true)) return;  // thousands may follow; --stats counts them
  Write(LogLevel::kWarning, "event lost: the program leaves thousands unread");
}

void Log::OnRefusal(const Hca& hca, const char* command, const char* error, const char* why) {
  Write(LogLevel::kWarning, hca.config().name + ": " + command + " refused (" + error + "): " + why);
}

}  // namespace softhca
