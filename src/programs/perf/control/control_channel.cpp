#include "perf/control/control_channel.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "common/thread.hpp"
#include "warpverbs/host/exchange.hpp"

namespace warpverbs::perf {
namespace {

constexpr char kFailed[] = "failed";
constexpr size_t kMaxReasonBytes = 1000;

/// Far more than the longest message, which has the addresses of 4096 queue pairs.
constexpr size_t kMaxMessageBytes = size_t{1} << 20;
constexpr int kMaxDepth = 16;  // of nested lists and objects

/// Parses a message of a sender that may be anybody: JSON takes up to 80 times its bytes. Returns a discarded
/// value if it is none, or is too long or too deep.
Json Parse(std::span<const uint8_t> text) {
  Json discarded(Json::value_t::discarded);
  if (text.size() > kMaxMessageBytes) return discarded;
  struct TooDeep {};
  const auto check_depth = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) throw TooDeep();
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check_depth, false);
  } catch (const TooDeep&) {
    return discarded;
  }
}

/// Throws the error that ended the heartbeats if it is the peer's failure.
void RethrowPeerFailure(const std::exception_ptr& lost) {
  try {
    if (lost) std::rethrow_exception(lost);
  } catch (const PeerFailed&) {
    throw;
  } catch (...) {
  }
}

}  // namespace

Json ControlChannel::SwapWithin(std::chrono::nanoseconds timeout, const Json& mine, const char* what) {
  const std::string text = Serialize(mine);
  const std::span bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const std::vector<uint8_t> theirs = exchange_.Swap(bytes, what, host::DeadlineIn(timeout));
  Json message = Parse(theirs);
  if (!message.is_object())
    throw std::runtime_error(exchange_.PeerName() +
                             " is not warpverbs-perf of this version. Run the same version on both sides.");
  if (const auto failed = message.find(kFailed); failed != message.end())
    throw PeerFailed(
        "The peer failed: " +
        host::PrintableText(failed->is_string() ? failed->get<std::string>() : "", kMaxReasonBytes));
  return message;
}

bool ControlChannel::SwapDone(bool done) {
  return Get<bool>(SwapWithin(timeout_ + heartbeat_, {{"done", done}}, "its heartbeat"), "done");
}

void ControlChannel::RunTogether(const std::function<void()>& part, const std::function<void()>& stop) {
  std::exception_ptr lost, failed;
  {
    const auto beat = [&](const std::stop_token& done) noexcept {
      try {
        std::mutex mutex;
        std::condition_variable_any woken;
        std::unique_lock lock(mutex);
        while (!woken.wait_for(lock, done, heartbeat_, [&] { return done.stop_requested(); }))
          SwapDone(false);
      } catch (...) {
        lost = std::current_exception();
        stop();
      }
    };
    const std::jthread heart = programs::StartThread("for heartbeats to the peer", beat);
    try {
      part();
    } catch (...) {
      failed = std::current_exception();
    }
  }
  RethrowPeerFailure(lost);  // the likely cause of any failure here
  if (failed) std::rethrow_exception(failed);
  if (lost) std::rethrow_exception(lost);
  while (!SwapDone(true)) continue;
}

void ControlChannel::Fail(const std::string& reason) noexcept {
  try {
    Swap({{kFailed, reason.substr(0, kMaxReasonBytes)}}, "its answer to a failure");
  } catch (const std::exception&) {
  }
}

}  // namespace warpverbs::perf
