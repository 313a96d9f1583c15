#include "completion_events.hpp"

#include <system_error>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

/// The announcements of a queue pair, each with a cookie of its own.
enum Announcement : uint64_t { kSends, kReceives, kFailure, kCookies };

[[noreturn]] void ThrowFailed(const host::Endpoint& endpoint) {
  throw host::Error("take", "the completions of QP " + std::to_string(endpoint.qpn()),
                    "the firmware of " + endpoint.device().name() +
                        " stopped its completion queue (CQ error, firmware event 0x04)",
                    "Call Reset(), and connect both sides again");
}

}  // namespace

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
  host::Endpoint& endpoint = channel.endpoint();
  const uint64_t cookie = kCookies * queues_.size();
  queues_.push_back({&channel, endpoint.AnnounceSends(completions, cookie + kSends),
                     endpoint.AnnounceReceives(completions, cookie + kReceives)});
  try {
    endpoint.AnnounceFailures(completions, cookie + kFailure);
  } catch (const host::Error& error) {
    unannounced_ = error.what();  // completions are announced all the same
  }
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
    if (*cookie / kCookies >= queues_.size()) continue;
    Queues& queues = queues_[*cookie / kCookies];
    if (*cookie % kCookies == kFailure) ThrowFailed(queues.channel->endpoint());
    (*cookie % kCookies == kSends ? queues.sends : queues.receives).OnAnnounced();
  }
}

}  // namespace warpverbs::inline v0_2::transport
