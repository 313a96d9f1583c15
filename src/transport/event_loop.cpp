#include "warpverbs/transport/event_loop.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <system_error>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {

EventLoop::EventLoop() try : own_(std::make_shared<asio::io_context>(1)), context_(own_.get()) {
  thread_ = std::thread([context = own_] {
    const auto work = asio::make_work_guard(*context);
    context->run();
  });
} catch (const std::system_error& error) {
  throw host::Error::FromErrno("start", "an event loop", error.code().value(),
                               "Raise the limits on threads and open files (ulimit -u, ulimit -n)");
}

EventLoop::~EventLoop() {
  if (!own_) return;
  // Posted twice, because the loop's thread may have queued handlers after the first post.
  asio::post(*context_, [context = context_] { asio::post(*context, [context] { context->stop(); }); });
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // a handler has destroyed the loop that runs it; the thread ends when it returns
  } else {
    thread_.join();
  }
}

}  // namespace warpverbs::inline v0_2::transport
