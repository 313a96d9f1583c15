#include <algorithm>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <cstddef>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include "core.hpp"
#include "sync/mutex.hpp"

/// The loop's part of a transport: it takes completions, and sleeps.
namespace warpverbs::inline v0_2::transport {
namespace {

// Time between polls where no completion events exist.
constexpr std::chrono::nanoseconds kShortestSleep = std::chrono::microseconds(50);
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::milliseconds(4);

}  // namespace

/// Queues a poll on the loop, unless one is queued.
void RdmaTransport::Core::Wake() noexcept {
  sleep_time_ = kShortestSleep;
  if (std::exchange(polling_, true)) return;
  PostPoll();
}

void RdmaTransport::Core::PostPoll() noexcept {
  asio::post(context_, InMemory{&poll_memory_, [self = shared_from_this()] { self->Poll(); }});
}

// A posted operation needs no wake-up, because its completion wakes the loop. An earlier deadline needs one.
void RdmaTransport::Core::WakeFor(Clock::time_point deadline) {
  const bool has_events = completion_events_ && completion_events_->unavailable().empty();
  if (!has_events || deadline < timer_at_) Wake();
}

void RdmaTransport::Core::Poll() {
  std::vector<Finished> finished;
  {
    const sync::LockGuard lock(mutex_);
    finished.swap(spare_);
    polling_ = PollChannels();
    if (polling_) PostPoll();
    finished.swap(finished_);
  }
  size_t completed = 0;
  try {
    while (completed < finished.size()) {
      Finished& entry = finished[completed++];
      entry.handler.Complete(std::move(entry.status));
    }
  } catch (...) {  // thrown by a handler, for the caller of run()
    finished.erase(finished.begin(), finished.begin() + static_cast<std::ptrdiff_t>(completed));
    PutBack(std::move(finished));
    throw;
  }
  finished.clear();
  const sync::LockGuard lock(mutex_);
  if (spare_.capacity() < finished.capacity()) spare_.swap(finished);  // keeps the larger buffer
}

/// Puts handlers in front of those that have finished since, for the next poll to complete. If there is no
/// memory for that, the program ends.
void RdmaTransport::Core::PutBack(std::vector<Finished> finished) noexcept {
  const sync::LockGuard lock(mutex_);
  std::move(finished_.begin(), finished_.end(), std::back_inserter(finished));
  finished_ = std::move(finished);
  if (!finished_.empty()) Wake();
}

/// Polls all channels.
///
/// @return  false: the loop may sleep
bool RdmaTransport::Core::PollChannels() noexcept {
  bool again = false;
  try {
    if (end_status_.ok() && connected_) again = PollOnce(Clock::now());
  } catch (const std::exception& error) {  // an error here would stop all later polls
    Fail(error.what());
  }
  return end_status_.ok() ? again : !CompleteAll();
}

bool RdmaTransport::Core::PollOnce(Clock::time_point now) {
  if (Process(now)) {
    spin_until_ = now + config_.spin;
    sleep_time_ = kShortestSleep;
  }
  return end_status_.ok() && (now < spin_until_ || !PrepareToSleep(now));
}

/// Takes all available completions, and handles them and the deadlines that have passed.
///
/// @return  whether there were completions
/// @errors  host::Error, std::bad_alloc
bool RdmaTransport::Core::Process(Clock::time_point now) {
  bool worked = false;
  for (const auto& channel : channels_) {
    worked |= ProcessChannel(*channel);
    if (!end_status_.ok()) return false;
  }
  if (!open_) CheckOpen(now);
  if (!end_status_.ok()) return false;
  if (worked) sender_.PostQueued();
  next_deadline_ = std::min(sender_.Expire(now, finished_), inbox_.Expire(now, finished_));
  if (!open_) next_deadline_ = std::min(next_deadline_, connect_deadline_);
  return worked;
}

bool RdmaTransport::Core::ProcessSends(Channel& channel) {
  bool worked = false;
  struct Transfer* transfer = nullptr;
  while (channel.PollSend(transfer)) {
    worked = true;
    if (transfer != nullptr) sender_.OnDone(*transfer, finished_);
  }
  return worked;
}

bool RdmaTransport::Core::ProcessChannel(Channel& channel) {
  bool worked = ProcessSends(channel);
  std::optional<ImmediateData> imm;
  while (channel.PollReceive(imm)) {
    worked = true;
    if (imm && !inbox_.OnPart(*imm, finished_)) {
      Fail(
          "the peer sent immediate data that no transport of this library sends: use the same release on "
          "both "
          "sides");
      return false;
    }
  }
  if (channel.flushed()) worked |= ProcessSends(channel);  // the cause of the flush may have completed since
  channel.ReturnReceives();
  if (channel.state() == Channel::State::kFailed) {
    const Status status = MakeStatus(channel.access_denied() ? Code::kAccessDenied : Code::kInternalError,
                                     channel.DescribeFailure());
    if (struct Transfer* const refused = channel.refused()) refused->pending.Complete(status, finished_);
    TearDown(status);
  }
  if (end_status_.ok() && channel.state() == Channel::State::kPeerAbsent) {
    channel.Restart();
    worked = true;
  }
  return worked;
}

void RdmaTransport::Core::CheckOpen(Clock::time_point now) {
  open_ = std::all_of(channels_.begin(), channels_.end(),
                      [](const auto& channel) { return channel->state() == Channel::State::kOpen; });
  if (open_) {
    std::vector<Channel*> channels;
    channels.reserve(channels_.size());
    for (const auto& channel : channels_) channels.push_back(channel.get());
    sender_.Open(channels);
  } else if (now >= connect_deadline_) {
    const bool seen = std::any_of(channels_.begin(), channels_.end(),
                                  [](const auto& channel) { return channel->peer_seen(); });
    Fail(seen ? "the peer has connected, but has not completed the handshake in time: check that it still "
                "runs, that its transport has not failed, and that neither side's loop is blocked"
              : "the peer has not connected in time: check that it runs, calls Connect() with this side's "
                "URL, and that neither side's loop is blocked");
  }
}

/// Arms the completion events and the timer.
///
/// @return  false: there were new completions, so do not sleep
bool RdmaTransport::Core::PrepareToSleep(Clock::time_point now) {
  Clock::time_point wake_at = next_deadline_;
  if (completion_events_->unavailable().empty()) {
    completion_events_->Arm();
    if (Process(now)) {
      spin_until_ = now + config_.spin;
      return false;
    }
    if (!end_status_.ok()) return true;
    wake_at = next_deadline_;
  } else {
    wake_at = std::min(wake_at, now + sleep_time_);
    sleep_time_ = std::min(2 * sleep_time_, kLongestSleep);
  }
  SetTimer(wake_at);
  return true;
}

void RdmaTransport::Core::SetTimer(Clock::time_point time) {
  if (time >= timer_at_) return;  // the timer is set to an earlier time
  timer_at_ = time;
  timer_.expires_at(time);
  OperationMemory& memory = timer_memory_[timer_turn_ ^= 1];
  timer_.async_wait(InMemory{&memory, [self = shared_from_this()](const std::error_code& error) {
                               if (!error) self->OnTimer();
                             }});
}

void RdmaTransport::Core::OnTimer() {
  const sync::LockGuard lock(mutex_);
  timer_at_ = Clock::time_point::max();
  if (std::exchange(polling_, true)) return;
  PostPoll();
}

void RdmaTransport::Core::Listen(size_t source) {
  completion_events_->sources()[source]->file.async_wait(
      CompletionEvents::File::wait_read,
      InMemory{&event_memory_[source], [self = shared_from_this(), source](const std::error_code& error) {
                 if (error != asio::error::operation_aborted) self->OnCompletionEvent(source, error);
               }});
}

void RdmaTransport::Core::OnCompletionEvent(size_t source, const std::error_code& error) {
  const sync::LockGuard lock(mutex_);
  if (!completion_events_) return;  // the transport was torn down, and the source with it
  try {
    if (error) throw std::system_error(error, "Cannot wait for the completions of a NIC");
    completion_events_->Drain(*completion_events_->sources()[source]);
    Listen(source);
  } catch (const std::exception& failure) {
    Fail(failure.what());
  }
  Wake();
}

}  // namespace warpverbs::inline v0_2::transport
