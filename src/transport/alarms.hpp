#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/basic_stream_descriptor.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lane.hpp"
#include "warpverbs/host/completion_channel.hpp"

namespace warpverbs::transport {

/// What wakes a transport whose queues are silent: a file for each NIC, and an alarm for each completion
/// queue. Devices or kernels without such events leave it empty. Not thread-safe.
class Alarms {
 public:
  using File = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;

  /// A NIC's file.
  struct Bell {
    /// @errors  host::Error
    Bell(asio::io_context& context, const host::Device& opened);
    ~Bell();
    Bell(const Bell&) = delete;
    Bell& operator=(const Bell&) = delete;

    const host::Device& device;
    host::CompletionChannel channel;
    File file;  // of the channel, which closes it
  };

  /// @param lanes  outlive this
  Alarms(asio::io_context& context, const std::vector<std::unique_ptr<Lane>>& lanes);

  const std::vector<std::unique_ptr<Bell>>& bells() const { return bells_; }

  /// Why there are none; empty if there are.
  const std::string& why_not() const { return why_not_; }

  /// Asks each queue for its next completion.
  void Arm();

  /// Takes what a bell has announced.
  ///
  /// @errors  host::Error
  void Take(Bell& bell);

 private:
  struct Queues {
    Lane* lane;
    host::CompletionAlarm sends, receives;
  };

  void Add(asio::io_context& context, Lane& lane);
  Bell& BellOf(asio::io_context& context, const host::Device& device);

  std::vector<std::unique_ptr<Bell>> bells_;
  std::vector<Queues> queues_;
  std::string why_not_;
};

}  // namespace warpverbs::transport
