#include "ucma/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "uverbs/errors.hpp"

namespace softhca::ucma {

File::File(int flags, std::function<void()> on_loss)
    : pipe_(uverbs::EventSort::kVerbs, sizeof(uint64_t), std::move(on_loss)),
      waiting_end_(fcntl(descriptor(), F_DUPFD_CLOEXEC, 0)) {
  if (waiting_end_ < 0) throw uverbs::Errno(errno, "cannot duplicate the descriptor of an event channel");
  if ((flags & O_CLOEXEC) == 0) fcntl(descriptor(), F_SETFD, 0);
  if ((flags & O_NONBLOCK) != 0) fcntl(descriptor(), F_SETFL, O_NONBLOCK);
}

File::~File() { uverbs::CloseOwn(waiting_end_); }

uint32_t File::Wait() const {
  uint64_t id = 0;
  if (read(waiting_end_, &id, sizeof id) != static_cast<ssize_t>(sizeof id))
    throw uverbs::Errno(errno, "no event is pending");
  return static_cast<uint32_t>(id);
}

void File::Push(const Event& event) {
  const uint64_t element = event.id;
  if (pipe_.Write(&element)) events_.push_back(event);
}

std::optional<Event> File::Take(uint32_t id) {
  const auto found =
      std::find_if(events_.begin(), events_.end(), [&](const Event& event) { return event.id == id; });
  if (found == events_.end()) return {};
  const Event event = *found;
  events_.erase(found);
  return event;
}

std::vector<Event> File::Withdraw(uint32_t id) {
  std::vector<Event> withdrawn;
  while (const auto event = Take(id)) withdrawn.push_back(*event);
  pipe_.Withdraw(id);
  return withdrawn;
}

}  // namespace softhca::ucma
