#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <thread>

namespace warpverbs::transport {

/// Where transports see to their completions, any number of them: a thread that sleeps while nothing happens.
///
/// Handlers without an executor of their own run on it. They must not block, as all transports of the loop
/// wait meanwhile, nor throw: on a loop's own thread an exception ends the program.
class EventLoop {
 public:
  using Executor = asio::io_context::executor_type;

  /// A thread of its own.
  ///
  /// @errors  host::Error: the system has no thread or file left
  EventLoop();

  /// Somebody else's context, which must outlive this and which somebody runs, in any number of threads.
  /// Its run() does not return while a transport lives. An exception of a handler leaves run(), and harms
  /// nobody else: whoever runs the context again lets the transports go on.
  explicit EventLoop(asio::io_context& context) : context_(&context) {}

  /// What has been handed to the loop is still done, aborted operations among it; then the thread ends.
  ///
  /// @pre  all its transports are gone
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  asio::io_context& context() const { return *context_; }
  Executor executor() const { return context_->get_executor(); }

 private:
  std::shared_ptr<asio::io_context> own_;  // the thread's too: the loop may end on it
  asio::io_context* context_;
  std::thread thread_;
};

}  // namespace warpverbs::transport
