#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "channel.hpp"
#include "warpverbs/host/completion_channel.hpp"

namespace warpverbs::inline v0_2::transport {

/// Wakes a sleeping transport when a completion queue has a new completion.
///
/// Has one file for each NIC, and one alarm for each completion queue. It is empty where the device or the
/// kernel has no such events. Not thread-safe.
class CompletionEvents {
 public:
  using File = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;

  /// The file of one NIC.
  struct Source {
    /// @errors  host::Error
    Source(asio::io_context& context, const host::Device& opened);
    ~Source();
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    const host::Device& device;
    host::CompletionChannel completions;
    File file;  // the file descriptor of `completions`, which closes it
  };

  /// @param channels  must outlive this
  CompletionEvents(asio::io_context& context, const std::vector<std::unique_ptr<Channel>>& channels);

  const std::vector<std::unique_ptr<Source>>& sources() const { return sources_; }

  /// The reason why there are no events; empty if there are.
  const std::string& unavailable() const { return unavailable_; }

  /// The reason why a completion queue may fail without an event; empty if it does not.
  const std::string& unannounced() const { return unannounced_; }

  /// Asks each queue to announce its next completion.
  void Arm();

  /// Takes all announcements of a source.
  ///
  /// @errors  host::Error: a completion queue has failed, or the device has gone
  void Drain(Source& source);

 private:
  struct Queues {
    Channel* channel;
    host::CompletionAlarm sends, receives;
  };

  void Add(asio::io_context& context, Channel& channel);
  Source& SourceOf(asio::io_context& context, const host::Device& device);

  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<Queues> queues_;
  std::string unavailable_;
  std::string unannounced_;
};

}  // namespace warpverbs::inline v0_2::transport
