#pragma once

#include <array>
#include <asio/basic_waitable_timer.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "channel.hpp"
#include "completion_events.hpp"
#include "host/device/owner_process.hpp"
#include "inbox.hpp"
#include "nics.hpp"
#include "operation_memory.hpp"
#include "sender.hpp"
#include "sync/mutex.hpp"
#include "url.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::inline v0_2::transport {

/// The implementation of a transport.
///
/// The transport and the loop's pending operations own it together. After Close() the NIC uses nothing of it.
///
/// Callers post by themselves while there is room. The loop takes completions: it polls as long as there are
/// any, then arms the completion events, polls once more, and sleeps.
class RdmaTransport::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(int device, asio::io_context& context, const TransportConfig& config);

  Bound Bind();
  Status Connect(std::string_view url);
  bool Connected() const;
  Status GetStatus() const;
  std::string Describe() const;

  void Submit(const Request& request, detail::Handler handler);
  void Wait(const WaitOptions& options, detail::Handler handler);

  /// Returns whether this is the process that made the transport, not a fork of it, where the loop may have
  /// left the lock held.
  bool InOwnProcess() const { return owner_.IsThisOne(); }

  /// Returns a new core of the same device, loop and configuration.
  std::shared_ptr<Core> MakeUnbound() const;

  /// Why a core ends.
  enum class End : uint8_t { kDestroyed, kReset };

  /// Destroys the queue pairs, and lets the loop complete all pending operations.
  void Close(End end);

 private:
  using Timer = asio::basic_waitable_timer<Clock, asio::wait_traits<Clock>, asio::io_context::executor_type>;

  Status Validate(const Request& request) const WARPVERBS_REQUIRES(mutex_);
  std::string WhyInvalid(const ListWrite& write) const WARPVERBS_REQUIRES(mutex_);
  std::vector<std::unique_ptr<Channel>> CreateChannels() const;
  Status MakeStatus(Code code, std::string_view reason) const noexcept;
  Status InternalError(std::string_view reason) const noexcept;
  void Fail(std::string_view reason) noexcept WARPVERBS_REQUIRES(mutex_);
  void TearDown(const Status& status) noexcept WARPVERBS_REQUIRES(mutex_);
  bool CompleteAll() noexcept WARPVERBS_REQUIRES(mutex_);
  void Complete(detail::Handler handler, Status status) WARPVERBS_REQUIRES(mutex_);
  void Wake() noexcept WARPVERBS_REQUIRES(mutex_);
  void WakeFor(Clock::time_point deadline) WARPVERBS_REQUIRES(mutex_);
  void PostPoll() noexcept;
  bool PollChannels() noexcept WARPVERBS_REQUIRES(mutex_);
  bool PollOnce(Clock::time_point now) WARPVERBS_REQUIRES(mutex_);
  bool Process(Clock::time_point now) WARPVERBS_REQUIRES(mutex_);
  bool ProcessSends(Channel& channel) WARPVERBS_REQUIRES(mutex_);
  bool ProcessChannel(Channel& channel) WARPVERBS_REQUIRES(mutex_);
  void CheckOpen(Clock::time_point now) WARPVERBS_REQUIRES(mutex_);
  bool PrepareToSleep(Clock::time_point now) WARPVERBS_REQUIRES(mutex_);
  void SetTimer(Clock::time_point time) WARPVERBS_REQUIRES(mutex_);
  void Listen(size_t source) WARPVERBS_REQUIRES(mutex_);

  // The loop calls:
  void Poll();
  void PutBack(std::vector<Finished> finished) noexcept;
  void OnCompletionEvent(size_t source, const std::error_code& error);
  void OnTimer();

  // Made in advance: the end of a transport must not allocate, because memory may have run out.
  const Status destroyed_{Code::kAborted,
                          "the transport was destroyed before the operation had ended: keep it until then"};
  const Status reset_{
      Code::kAborted,
      "the transport was reset before the operation had ended: start it again after Connect()"};
  const Status out_of_memory_{Code::kInternalError,
                              "the program has no memory left: raise its limit (ulimit -v)"};

  const host::OwnerProcess owner_;
  const int device_;
  const TransportConfig config_;
  asio::io_context& context_;
  asio::executor_work_guard<asio::io_context::executor_type>
      work_;  // keeps run() from returning until Close()
  const std::shared_ptr<Nics> nics_;
  std::array<uint8_t, 16> id_{};

  mutable sync::Mutex mutex_;
  std::vector<std::unique_ptr<Channel>> channels_ WARPVERBS_GUARDED_BY(mutex_);     // created by Bind()
  std::optional<CompletionEvents> completion_events_ WARPVERBS_GUARDED_BY(mutex_);  // created by Connect()
  bool bound_ WARPVERBS_GUARDED_BY(mutex_) = false;
  bool connected_ WARPVERBS_GUARDED_BY(mutex_) = false;
  bool open_ WARPVERBS_GUARDED_BY(mutex_) = false;
  /// Why the transport is broken or closed; success: it is neither.
  Status end_status_ WARPVERBS_GUARDED_BY(mutex_){};
  Clock::time_point connect_deadline_ WARPVERBS_GUARDED_BY(mutex_) = Clock::time_point::max();
  Sender sender_ WARPVERBS_GUARDED_BY(mutex_);
  Inbox inbox_ WARPVERBS_GUARDED_BY(mutex_);
  std::vector<Finished> finished_ WARPVERBS_GUARDED_BY(mutex_);
  std::vector<Finished> spare_ WARPVERBS_GUARDED_BY(mutex_);

  bool polling_ WARPVERBS_GUARDED_BY(mutex_) = false;  // Poll() is queued on the loop
  Clock::time_point spin_until_ WARPVERBS_GUARDED_BY(mutex_){};
  Clock::time_point next_deadline_ WARPVERBS_GUARDED_BY(mutex_) = Clock::time_point::max();
  /// Time until the next poll, without completion events.
  std::chrono::nanoseconds sleep_time_ WARPVERBS_GUARDED_BY(mutex_){};
  Timer timer_ WARPVERBS_GUARDED_BY(mutex_);
  Clock::time_point timer_at_ WARPVERBS_GUARDED_BY(mutex_) = Clock::time_point::max();
  size_t timer_turn_ WARPVERBS_GUARDED_BY(mutex_) = 0;
  // Members, because a queued operation may outlive the object it was for.
  OperationMemory poll_memory_, close_memory_;
  std::array<OperationMemory, 2>
      timer_memory_;  // used in turn: the previous wait is cancelled, but may still be queued
  std::array<OperationMemory, AccessKey::kMaxNics> event_memory_;
};

}  // namespace warpverbs::inline v0_2::transport
