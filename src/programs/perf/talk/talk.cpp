#include "perf/talk/talk.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "perf/thread.hpp"
#include "text/printable.hpp"
#include "warpverbs/host/exchange.hpp"

namespace warpverbs::perf {
namespace {

constexpr char kFailed[] = "failed";
constexpr size_t kMostWords = 1000;

/// Throws what has ended the talk, if that is the other side's failure.
void RethrowPeers(const std::exception_ptr& lost) {
  try {
    if (lost) std::rethrow_exception(lost);
  } catch (const PeerFailed&) {
    throw;
  } catch (...) {
  }
}

}  // namespace

Json Talk::SwapWithin(std::chrono::nanoseconds patience, const Json& mine, const char* what) {
  const std::string text = Dumped(mine);
  const std::span bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const std::vector<uint8_t> theirs = exchange_.Swap(bytes, what, host::DeadlineIn(patience));
  Json answer = Json::parse(theirs, nullptr, false);
  if (!answer.is_object()) {
    throw std::runtime_error(exchange_.PeerName() +
                             " is no warpverbs-perf of this version. Run the same version on both sides.");
  }
  if (const auto failed = answer.find(kFailed); failed != answer.end())
    throw PeerFailed("The other side failed: " +
                     programs::Printable(failed->is_string() ? failed->get<std::string>() : "", kMostWords));
  return answer;
}

bool Talk::SwapDone(bool done) {
  return Get<bool>(SwapWithin(patience_ + beat_, {{"done", done}}, "the word that it is done"), "done");
}

void Talk::DoTogether(const std::function<void()>& part, const std::function<void()>& stop) {
  std::exception_ptr lost, failed;
  {
    const auto beat = [&](const std::stop_token& done) noexcept {
      try {
        std::mutex mutex;
        std::condition_variable_any woken;
        std::unique_lock lock(mutex);
        while (!woken.wait_for(lock, done, beat_, [&] { return done.stop_requested(); })) SwapDone(false);
      } catch (...) {
        lost = std::current_exception();
        stop();
      }
    };
    const std::jthread heart = StartThread("that says that this side is at work", beat);
    try {
      part();
    } catch (...) {
      failed = std::current_exception();
    }
  }
  RethrowPeers(lost);  // the cause: what failed here may have come of it
  if (failed) std::rethrow_exception(failed);
  if (lost) std::rethrow_exception(lost);
  while (!SwapDone(true)) continue;
}

void Talk::Fail(const std::string& why) noexcept {
  try {
    Swap({{kFailed, why.substr(0, kMostWords)}}, "the reason of a failure");
  } catch (const std::exception&) {
  }
}

}  // namespace warpverbs::perf
