#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/hca.hpp"
#include "core/observer.hpp"

namespace softhca {

/// Counters of a queue pair. Requests are its own WQEs, messages those of its peer.
struct QpCounters {
  std::string name;
  std::string service;
  uint64_t requests = 0;
  uint64_t request_bytes = 0;
  uint64_t failed = 0;       ///< failed requests, flushed ones included
  uint64_t completions = 0;  ///< CQEs of requests: signalled or failed ones
  uint64_t most_open = 0;    ///< most WQEBBs posted and not yet reported by a completion
  uint64_t messages = 0;
  uint64_t message_bytes = 0;
  uint64_t packets_sent = 0;
  uint64_t packets_received = 0;
  uint64_t sent_again = 0;  ///< retransmitted packets
  uint64_t timeouts = 0;
  uint64_t naks_sent = 0, naks_received = 0;
  uint64_t rnr_naks_sent = 0, rnr_naks_received = 0;
  uint64_t duplicates = 0;    ///< request packets received again
  uint64_t out_of_order = 0;  ///< request packets received too early
  std::map<std::string, uint64_t> sent_by_kind, received_by_kind;
};

/// Counts events, and reports the counts when the program ends.
class Stats : public Observer {
 public:
  /// @param json_file  empty: text on standard error
  explicit Stats(std::string json_file) : json_file_(std::move(json_file)) {}

  void OnFetch(const QueuePair& qp, uint16_t index, const Request& request) override;
  void OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) override;
  void OnCompletion(const QueuePair& qp) override;
  void OnMessage(const QueuePair& from, const QueuePair& to, const Request& request) override;
  void OnPacket(const QueuePair& qp, Direction direction, const Packet& packet,
                uint64_t payload_bytes) override;
  void OnExecuted(const QueuePair& qp, const Packet& packet) override;
  void OnTimeout(const QueuePair& qp) override;
  void OnDrop(const char* reason, uint64_t frames) override { drops_[reason] += frames; }
  void OnLostEvent() override { ++lost_events_; }
  void OnState(const QueuePair& qp, mlx5::QpState from) override;
  void OnEnd(std::span<const std::unique_ptr<Hca>> devices) override;

 private:
  struct Entry {
    QpCounters counters;
    std::map<uint16_t, uint64_t> open;      ///< entries in flight: index and bytes
    uint32_t reported_index = 0;            ///< past the last entry that a completion reported
    std::optional<uint32_t> next_send_psn;  ///< past the newest PSN sent
  };
  using Key = std::pair<const Hca*, uint32_t>;

  Entry& Of(const QueuePair& qp);
  static void CountOpen(const QueuePair& qp, Entry& entry);
  void CountSent(const QueuePair& qp, Entry& entry, const Packet& packet);
  static void CountReceived(const QueuePair& qp, Entry& entry, const Packet& packet);

  std::string json_file_;
  std::map<Key, Entry> entries_;
  std::map<std::string, uint64_t> drops_;
  uint64_t lost_events_ = 0;
};

/// The counts of a process at its end.
struct StatsReport {
  std::span<const std::unique_ptr<Hca>> devices;
  std::vector<QpCounters> qps{};
  std::map<std::string, uint64_t> drops;  ///< dropped frames, by reason
  uint64_t lost_events = 0;
};

/// Prints tables to standard error.
void Print(const StatsReport& report);

/// Writes JSON to a file. Reports on standard error if the file cannot be written.
void WriteJson(const StatsReport& report, const std::string& file);

}  // namespace softhca
