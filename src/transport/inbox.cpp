#include "inbox.hpp"

#include <algorithm>
#include <utility>

namespace warpverbs::transport {

void Inbox::Wait(Waiter waiter, std::vector<Finished>& finished) {
  if (available_ != 0) {
    waiter.Answer({}, finished);
    --available_;
    return;
  }
  first_deadline_ = std::min(first_deadline_, waiter.deadline);
  Entry& entry = pool_.Take();
  entry.waiter = std::move(waiter);
  entries_.Append(entry);
}

bool Inbox::Take(const Announcement& part, std::vector<Finished>& finished) {
  const std::optional<uint32_t> released = order_.Add(part);
  if (!released) return false;
  available_ += *released;
  while (available_ != 0 && !entries_.empty()) {
    Answer(*entries_.first(), {}, finished);
    --available_;
  }
  return true;
}

Clock::time_point Inbox::Expire(Clock::time_point now, std::vector<Finished>& finished) {
  if (now < first_deadline_) return first_deadline_;
  first_deadline_ = Clock::time_point::max();
  entries_.ForEach([&](Entry& entry) {
    if (entry.waiter.deadline <= now) {
      Answer(entry, {Code::kTimeout, "no notified write arrived in time"}, finished);
    } else {
      first_deadline_ = std::min(first_deadline_, entry.waiter.deadline);
    }
  });
  return first_deadline_;
}

void Inbox::Drop(const Status& status, std::vector<Finished>& finished) {
  entries_.ForEach([&](Entry& entry) { Answer(entry, status, finished); });
}

void Inbox::Answer(Entry& entry, const Status& status, std::vector<Finished>& finished) {
  entry.waiter.Answer(status, finished);
  entries_.Remove(entry);
  pool_.Give(entry);
}

}  // namespace warpverbs::transport
