#include <algorithm>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <cstddef>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include "core.hpp"

/// How a transport sees to its completions, and sleeps.
namespace warpverbs::transport {
namespace {

// How long to sleep where nothing tells of completions.
constexpr std::chrono::nanoseconds kShortestNap = std::chrono::microseconds(50);
constexpr std::chrono::nanoseconds kLongestNap = std::chrono::milliseconds(4);

}  // namespace

/// Lets the loop look, unless it is about to.
void RdmaTransport::Core::Wake() noexcept {
  nap_ = kShortestNap;
  if (std::exchange(polling_, true)) return;
  PostPoll();
}

void RdmaTransport::Core::PostPoll() noexcept {
  asio::post(context_, InMemory(&poll_memory_, [self = shared_from_this()] { self->Poll(); }));
}

/// The loop need not know of what was posted: its completion wakes it. But it must know until when to sleep.
void RdmaTransport::Core::WakeFor(Clock::time_point deadline) {
  const bool is_told = alarms_ && alarms_->why_not().empty();
  if (!is_told || deadline < timer_at_) Wake();
}

void RdmaTransport::Core::Poll() {
  std::vector<Finished> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(spare_);
    polling_ = Look();
    if (polling_) PostPoll();
    finished.swap(finished_);
  }
  size_t answered = 0;
  try {
    while (answered < finished.size()) {
      Finished& one = finished[answered++];
      one.handler.Complete(std::move(one.status));
    }
  } catch (...) {  // a handler's: it is for the caller of run()
    finished.erase(finished.begin(), finished.begin() + static_cast<std::ptrdiff_t>(answered));
    PutBack(std::move(finished));
    throw;
  }
  finished.clear();
  const std::lock_guard lock(mutex_);
  if (spare_.capacity() < finished.capacity()) spare_.swap(finished);  // so that it need not grow again
}

/// Lets the next look answer them, before those that have ended meanwhile. Where there is no memory for that
/// either the program ends.
void RdmaTransport::Core::PutBack(std::vector<Finished> finished) noexcept {
  const std::lock_guard lock(mutex_);
  std::move(finished_.begin(), finished_.end(), std::back_inserter(finished));
  finished_ = std::move(finished);
  if (!finished_.empty()) Wake();
}

/// @return  false: the loop may sleep
bool RdmaTransport::Core::Look() noexcept {
  bool again = false;
  try {
    if (end_.ok() && connected_) again = LookOnce(Clock::now());
  } catch (const std::exception& error) {  // whatever it is, nobody would look again
    Break(error.what());
  }
  return end_.ok() ? again : !AnswerAll();
}

bool RdmaTransport::Core::LookOnce(Clock::time_point now) {
  if (Step(now)) {
    look_until_ = now + options_.spin;
    nap_ = kShortestNap;
  }
  return end_.ok() && (now < look_until_ || !Rest(now));
}

/// Takes all completions that are there, and does what follows from them and from the time.
///
/// @return  whether there were any
/// @errors  host::Error, std::bad_alloc
bool RdmaTransport::Core::Step(Clock::time_point now) {
  bool worked = false;
  for (const auto& lane : lanes_) {
    worked |= Serve(*lane);
    if (!end_.ok()) return false;
  }
  if (!open_) CheckOpen(now);
  if (!end_.ok()) return false;
  if (worked) sender_.Pump();
  next_deadline_ = std::min(sender_.Expire(now, finished_), inbox_.Expire(now, finished_));
  if (!open_) next_deadline_ = std::min(next_deadline_, connect_deadline_);
  return worked;
}

bool RdmaTransport::Core::TakeSends(Lane& lane) {
  bool worked = false;
  struct Transfer* transfer = nullptr;
  while (lane.TakeSend(transfer)) {
    worked = true;
    if (transfer != nullptr) sender_.OnDone(*transfer, finished_);
  }
  return worked;
}

bool RdmaTransport::Core::Serve(Lane& lane) {
  bool worked = TakeSends(lane);
  std::optional<Announcement> announcement;
  while (lane.TakeReceive(announcement)) {
    worked = true;
    if (announcement && !inbox_.Take(*announcement, finished_)) {
      Break(
          "the peer announced what no transport of this library announces: use the same release on both "
          "sides");
      return false;
    }
  }
  if (lane.flushed()) worked |= TakeSends(lane);  // the error that the flush followed, if it came meanwhile
  lane.ReturnReceives();
  if (lane.state() == Lane::State::kFailed) Break(lane.WhyFailed());
  if (end_.ok() && lane.state() == Lane::State::kAbsent) {
    lane.HelloAgain();
    worked = true;
  }
  return worked;
}

void RdmaTransport::Core::CheckOpen(Clock::time_point now) {
  open_ = std::all_of(lanes_.begin(), lanes_.end(),
                      [](const auto& lane) { return lane->state() == Lane::State::kOpen; });
  if (open_) {
    std::vector<Lane*> lanes;
    for (const auto& lane : lanes_) lanes.push_back(lane.get());
    sender_.Open(lanes);
  } else if (now >= connect_deadline_) {
    Break(
        "the peer has not connected in time: check that it is there, calls Connect() with this side's URL, "
        "and "
        "that neither side's loop is blocked");
  }
}

/// Prepares for sleep.
///
/// @return  false: something happened meanwhile
bool RdmaTransport::Core::Rest(Clock::time_point now) {
  Clock::time_point wake_at = next_deadline_;
  if (alarms_->why_not().empty()) {
    alarms_->Arm();
    if (Step(now)) {
      look_until_ = now + options_.spin;
      return false;
    }
    if (!end_.ok()) return true;
    wake_at = next_deadline_;
  } else {
    wake_at = std::min(wake_at, now + nap_);
    nap_ = std::min(2 * nap_, kLongestNap);
  }
  SetTimer(wake_at);
  return true;
}

void RdmaTransport::Core::SetTimer(Clock::time_point time) {
  if (time >= timer_at_) return;  // it wakes early enough
  timer_at_ = time;
  timer_.expires_at(time);
  OperationMemory& memory = timer_memory_[timer_turn_ ^= 1];
  timer_.async_wait(InMemory(&memory, [self = shared_from_this()](const std::error_code& error) {
    if (!error) self->OnTimer();
  }));
}

void RdmaTransport::Core::OnTimer() {
  const std::lock_guard lock(mutex_);
  timer_at_ = Clock::time_point::max();
  if (std::exchange(polling_, true)) return;
  PostPoll();
}

void RdmaTransport::Core::Listen(size_t bell) {
  alarms_->bells()[bell]->file.async_wait(
      Alarms::File::wait_read,
      InMemory(&bell_memory_[bell], [self = shared_from_this(), bell](const std::error_code& error) {
        if (error != asio::error::operation_aborted) self->OnBell(bell, error);
      }));
}

void RdmaTransport::Core::OnBell(size_t bell, const std::error_code& error) {
  const std::lock_guard lock(mutex_);
  if (!alarms_) return;  // and the bell has gone with them
  try {
    if (error) throw std::system_error(error, "Cannot wait for the completions of a NIC");
    alarms_->Take(*alarms_->bells()[bell]);
    Listen(bell);
  } catch (const std::exception& failure) {
    Break(failure.what());
  }
  Wake();
}

}  // namespace warpverbs::transport
