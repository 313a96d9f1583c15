#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <thread>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::transport {

/// The loop on which any number of transports take their completions. Its thread sleeps while nothing
/// happens.
///
/// Handlers without an executor of their own run on it. They must not block, because all transports of the
/// loop wait meanwhile. They must not throw: on a loop's own thread an exception ends the program.
class WARPVERBS_EXPORT EventLoop {
 public:
  using Executor = asio::io_context::executor_type;

  /// Starts a thread of its own.
  ///
  /// @errors  host::Error: the system has no thread or file left
  EventLoop();

  /// Uses a context of the caller, who runs it on any number of threads. It must outlive this.
  ///
  /// Its run() does not return while a transport exists. An exception of a handler leaves run() and harms no
  /// transport: they continue when the caller runs the context again.
  explicit EventLoop(asio::io_context& context) : context_(&context) {}

  /// Runs all queued handlers, including those of aborted operations, then ends the thread. In a forked
  /// child, which has no thread, it does nothing.
  ///
  /// @pre  all its transports are destroyed
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  asio::io_context& context() const { return *context_; }
  Executor executor() const { return context_->get_executor(); }

 private:
  struct OwnContext;

  std::shared_ptr<OwnContext> own_;  // shared with the thread: a handler may destroy the loop
  asio::io_context* context_;
  std::thread thread_;
};

}  // namespace warpverbs::inline v0_2::transport
