#include "alarms.hpp"

#include <system_error>

#include "warpverbs/host/error.hpp"

namespace warpverbs::transport {

Alarms::Bell::Bell(asio::io_context& context, const host::Device& opened)
    : device(opened), channel(opened), file(context) {
  std::error_code error;
  file.assign(channel.fd(), error);
  if (error) {
    throw host::Error::FromErrno("wait for", "the completions of " + device.name(), error.value(),
                                 "Raise the limit on watched files (/proc/sys/fs/epoll/max_user_watches)");
  }
}

Alarms::Bell::~Bell() { file.release(); }

Alarms::Alarms(asio::io_context& context, const std::vector<std::unique_ptr<Lane>>& lanes) {
  try {
    for (const auto& lane : lanes) Add(context, *lane);
  } catch (const host::Error& error) {
    queues_.clear();
    bells_.clear();
    why_not_ = error.what();
  }
}

void Alarms::Add(asio::io_context& context, Lane& lane) {
  host::CompletionChannel& channel = BellOf(context, lane.device()).channel;
  const uint64_t cookie = 2 * queues_.size();
  queues_.push_back({&lane, lane.endpoint().AnnounceSends(channel, cookie),
                     lane.endpoint().AnnounceReceives(channel, cookie + 1)});
}

Alarms::Bell& Alarms::BellOf(asio::io_context& context, const host::Device& device) {
  for (const auto& bell : bells_) {
    if (&bell->device == &device) return *bell;
  }
  return *bells_.emplace_back(std::make_unique<Bell>(context, device));
}

void Alarms::Arm() {
  for (Queues& queues : queues_) {
    queues.sends.Arm(queues.lane->send_consumer_index());
    queues.receives.Arm(queues.lane->receive_consumer_index());
  }
}

void Alarms::Take(Bell& bell) {
  while (const auto cookie = bell.channel.Take()) {
    if (*cookie / 2 >= queues_.size()) continue;
    Queues& queues = queues_[*cookie / 2];
    (*cookie % 2 == 0 ? queues.sends : queues.receives).OnAnnounced();
  }
}

}  // namespace warpverbs::transport
