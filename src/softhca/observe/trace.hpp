#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "core/observer.hpp"
#include "observe/trace_file.hpp"

namespace softhca {

/// Traces each work request from doorbell to completion, on one track per queue pair.
class Trace : public Observer {
 public:
  /// @errors  std::runtime_error: the file cannot be written
  explicit Trace(const std::string& file) : file_(file) {}

  void OnState(const QueuePair& qp, mlx5::QpState from) override;
  void OnLink(const Hca& hca, uint8_t port, bool up) override;
  void OnDoorbell(const QueuePair& qp) override;
  void OnFetch(const QueuePair& qp, uint16_t index, const Request& request) override;
  void OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) override;
  void OnMessage(const QueuePair& from, const QueuePair& to, const Request& request) override;
  void OnPacket(const QueuePair& qp, Direction direction, const Packet& packet,
                uint64_t payload_bytes) override;
  void OnTimeout(const QueuePair& qp) override;
  void OnDrop(const char* reason, uint64_t frames) override;
  void OnIdle() override { file_.FlushIfDue(); }
  void OnEnd(std::span<const std::unique_ptr<Hca>>) override { file_.Close(); }

 private:
  struct Doorbell {
    uint64_t at_ns;
    uint16_t end;  ///< index past the last entry it announced
  };
  struct Open {
    uint64_t id;
    std::string name;
  };
  struct Track {
    uint32_t number = 0;
    std::deque<Doorbell> doorbells{};  ///< doorbells of entries not fetched yet
    std::map<uint16_t, Open> open{};   ///< entries fetched and not done
  };

  Track& Of(const QueuePair& qp);
  /// Returns the time of the doorbell that announced the entry; `now_ns` if it is unknown.
  static uint64_t AnnouncedAt(Track& track, uint16_t index, uint64_t now_ns);

  TraceFile file_;
  std::map<std::pair<const Hca*, uint32_t>, Track> tracks_;
  uint64_t last_id_ = 0;
};

}  // namespace softhca
