#include "completion_events.hpp"

#include <system_error>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {

CompletionEvents::Source::Source(asio::io_context& context, const host::Device& opened)
    : device(opened), completions(opened), file(context) {
  std::error_code error;
  file.assign(completions.fd(), error);
  if (error) {
    throw host::Error::FromErrno("wait for", "the completions of " + device.name(), error.value(),
                                 "Raise the limit on watched files (/proc/sys/fs/epoll/max_user_watches)");
  }
}

CompletionEvents::Source::~Source() { file.release(); }

CompletionEvents::CompletionEvents(asio::io_context& context,
                                   const std::vector<std::unique_ptr<Channel>>& channels) {
  try {
    for (const auto& channel : channels) Add(context, *channel);
  } catch (const host::Error& error) {
    queues_.clear();
    sources_.clear();
    unavailable_ = error.what();
  }
}

void CompletionEvents::Add(asio::io_context& context, Channel& channel) {
  host::CompletionChannel& completions = SourceOf(context, channel.device()).completions;
  const uint64_t cookie = 2 * queues_.size();
  queues_.push_back({&channel, channel.endpoint().AnnounceSends(completions, cookie),
                     channel.endpoint().AnnounceReceives(completions, cookie + 1)});
}

CompletionEvents::Source& CompletionEvents::SourceOf(asio::io_context& context, const host::Device& device) {
  for (const auto& source : sources_) {
    if (&source->device == &device) return *source;
  }
  return *sources_.emplace_back(std::make_unique<Source>(context, device));
}

void CompletionEvents::Arm() {
  for (Queues& queues : queues_) {
    queues.sends.Arm(queues.channel->send_consumer_index());
    queues.receives.Arm(queues.channel->receive_consumer_index());
  }
}

void CompletionEvents::Drain(Source& source) {
  while (const auto cookie = source.completions.Take()) {
    if (*cookie / 2 >= queues_.size()) continue;
    Queues& queues = queues_[*cookie / 2];
    (*cookie % 2 == 0 ? queues.sends : queues.receives).OnAnnounced();
  }
}

}  // namespace warpverbs::inline v0_2::transport
