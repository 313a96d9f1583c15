#include "warpverbs/transport/event_loop.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <system_error>

#include "host/device/owner_process.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {

struct EventLoop::OwnContext {
  const host::OwnerProcess owner;
  asio::io_context context{1};
};

EventLoop::EventLoop() try : own_(std::make_shared<OwnContext>()), context_(&own_->context) {
  thread_ = std::thread([own = own_] {
    const auto work = asio::make_work_guard(own->context);
    own->context.run();
  });
} catch (const std::system_error& error) {
  throw host::Error::FromErrno("start", "an event loop", error.code().value(),
                               "Raise the limits on threads, memory and open files (ulimit -u, -v, -n)");
}

EventLoop::~EventLoop() {
  if (!own_) return;
  if (!own_->owner.IsThisOne()) {  // the thread, and its files, are the parent's
    thread_.detach();
    host::Abandon(own_);
    return;
  }
  // Posted twice, because the loop's thread may have queued handlers after the first post.
  asio::post(*context_, [context = context_] { asio::post(*context, [context] { context->stop(); }); });
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // a handler has destroyed the loop that runs it; the thread ends when it returns
  } else {
    thread_.join();
  }
}

}  // namespace warpverbs::inline v0_2::transport
