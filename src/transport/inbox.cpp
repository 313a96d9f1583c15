#include "inbox.hpp"

#include <utility>

#include "words.hpp"

namespace warpverbs::transport {
namespace {

Status NoneCame(std::chrono::nanoseconds timeout) {
  return {Code::kTimeout, "no write of the peer that notifies has arrived within " + InWords(timeout) +
                              ": wait longer, or see whether the peer is there and writes with notify"};
}

}  // namespace

void Inbox::Wait(Waiter waiter, Clock::time_point deadline, std::vector<Finished>& finished) {
  if (available_ != 0) {
    waiter.Answer({}, finished);
    --available_;
    return;
  }
  Entry& entry = pool_.Take();
  entry.waiter = std::move(waiter);
  entries_.Append(entry);
  deadlines_.Add(entry, deadline);
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
  while (deadlines_.next() <= now) {
    Entry& late = *deadlines_.first();
    Answer(late, NoneCame(late.waiter.timeout), finished);
  }
  return deadlines_.next();
}

void Inbox::Drop(const Status& status, std::vector<Finished>& finished) {
  entries_.ForEach([&](Entry& entry) { Answer(entry, status, finished); });
}

void Inbox::Answer(Entry& entry, const Status& status, std::vector<Finished>& finished) {
  entry.waiter.Answer(status, finished);
  entries_.Remove(entry);
  deadlines_.Remove(entry);
  pool_.Give(entry);
}

}  // namespace warpverbs::transport
