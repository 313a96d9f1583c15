#include "inbox.hpp"

#include <utility>

namespace warpverbs::inline v0_2::transport {
namespace {

Status TimeoutStatus(std::chrono::nanoseconds timeout) {
  return {Code::kTimeout,
          "no notified write of the peer has arrived within " + ToString(timeout) +
              ": choose a longer timeout, or check that the peer is there and writes with notify"};
}

}  // namespace

void Inbox::Wait(PendingHandler pending, Clock::time_point deadline, std::vector<Finished>& finished) {
  if (available_ != 0) {
    pending.Complete({}, finished);
    --available_;
    return;
  }
  Entry& entry = pool_.Take();
  entry.pending = std::move(pending);
  entries_.Append(entry);
  deadlines_.Add(entry, deadline);
}

bool Inbox::OnPart(const ImmediateData& part, std::vector<Finished>& finished) {
  const std::optional<uint32_t> released = order_.Add(part);
  if (!released) return false;
  available_ += *released;
  while (available_ != 0 && !entries_.empty()) {
    Complete(*entries_.first(), {}, finished);
    --available_;
  }
  return true;
}

Clock::time_point Inbox::Expire(Clock::time_point now, std::vector<Finished>& finished) {
  while (deadlines_.next() <= now) {
    Entry& late = *deadlines_.first();
    Complete(late, TimeoutStatus(late.pending.timeout), finished);
  }
  return deadlines_.next();
}

void Inbox::Drop(const Status& status, std::vector<Finished>& finished) {
  entries_.ForEach([&](Entry& entry) { Complete(entry, status, finished); });
}

void Inbox::Complete(Entry& entry, const Status& status, std::vector<Finished>& finished) {
  entry.pending.Complete(status, finished);
  entries_.Remove(entry);
  deadlines_.Remove(entry);
  pool_.Give(entry);
}

}  // namespace warpverbs::inline v0_2::transport
