#pragma once

#include <array>
#include <asio/basic_waitable_timer.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "alarms.hpp"
#include "inbox.hpp"
#include "lane.hpp"
#include "nics.hpp"
#include "operation_memory.hpp"
#include "sender.hpp"
#include "url.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::transport {

/// What a transport is made of. It is the caller's and the loop's: what the loop has under way keeps it until
/// that has ended, though Close() leaves nothing of it at the NIC.
///
/// Callers post by themselves where there is room. The loop takes completions: it looks as long as there is
/// something to see, then arms the alarms, looks once more, and sleeps.
class RdmaTransport::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(int device, asio::io_context& context, const TransportOptions& options);

  Bound Bind();
  Status Connect(std::string_view url);
  bool Connected() const;
  Status GetStatus() const;
  std::string Describe() const;

  void Submit(const Request& request, detail::Handler handler);
  void Wait(const WaitOptions& options, detail::Handler handler);

  /// Takes everything from the NIC, and lets the loop answer whoever waits.
  void Close();

 private:
  using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, asio::io_context::executor_type>;

  // Under mutex_:
  Status Refusal(const Request& request) const;
  std::vector<std::unique_ptr<Lane>> MakeLanes() const;
  Status InternalError(std::string_view why) const noexcept;
  void Break(std::string_view why) noexcept;
  void TearDown(const Status& status) noexcept;
  bool AnswerAll() noexcept;
  void Answer(detail::Handler handler, Status status);
  void Wake() noexcept;
  void WakeFor(Clock::time_point deadline);
  void PostPoll() noexcept;
  bool Look() noexcept;
  bool LookOnce(Clock::time_point now);
  bool Step(Clock::time_point now);
  bool TakeSends(Lane& lane);
  bool Serve(Lane& lane);
  void CheckOpen(Clock::time_point now);
  bool Rest(Clock::time_point now);
  void SetTimer(Clock::time_point time);
  void Listen(size_t bell);

  // On the loop:
  void Poll();
  void PutBack(std::vector<Finished> finished) noexcept;
  void OnBell(size_t bell, const std::error_code& error);
  void OnTimer();

  // The end must need no memory: there may be none.
  const Status destroyed_{Code::kAborted,
                          "the transport was destroyed before the operation had ended: keep it until then"};
  const Status out_of_memory_{Code::kInternalError,
                              "the program has no memory left: raise its limit (ulimit -v)"};

  const int device_;
  const TransportOptions options_;
  asio::io_context& context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;  // until Close(): run() does not return
  const std::shared_ptr<Nics> nics_;
  std::array<uint8_t, 16> id_{};

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // from Bind() on
  std::optional<Alarms> alarms_;              // from Connect() on
  bool bound_ = false, connected_ = false, open_ = false;
  Status end_{};  // of the transport: broken or closed
  Clock::time_point connect_deadline_ = Clock::time_point::max();
  Sender sender_;
  Inbox inbox_;
  std::vector<Finished> finished_, spare_;

  bool polling_ = false;  // Poll() is on its way
  Clock::time_point look_until_{};
  Clock::time_point next_deadline_ = Clock::time_point::max();
  std::chrono::nanoseconds nap_{};  // without alarms: how long to sleep
  Timer timer_;
  Clock::time_point timer_at_ = Clock::time_point::max();
  size_t timer_turn_ = 0;
  // An operation may still be queued when what it was for has gone.
  OperationMemory poll_memory_, close_memory_;
  std::array<OperationMemory, 2>
      timer_memory_;  // in turn: the one before is cancelled, and may not have heard of it
  std::array<OperationMemory, AccessKey::kMaxNics> bell_memory_;
};

}  // namespace warpverbs::transport
