#include "uverbs/event_pipe.hpp"

#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "uverbs/errors.hpp"

namespace softhca::uverbs {

EventPipe::EventPipe(EventSort sort, size_t event_bytes, std::function<void()> on_loss)
    : sort_(sort), event_bytes_(event_bytes), on_loss_(std::move(on_loss)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Errno(errno, "cannot make a pipe for events");
  program_end_ = ends[0];
  write_end_ = ends[1];
  fcntl(write_end_, F_SETFL, O_NONBLOCK);
  // Opens the pipe again instead of duplicating the descriptor: the flags are separate.
  char self[32];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", program_end_);
  own_reader_ = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (own_reader_ < 0) {
    const int error = errno;
    for (const int fd : ends) CloseOwn(fd);
    throw Errno(error, "cannot open a pipe for events through /proc/self/fd");
  }
  id_ = Identify(program_end_);
}

EventPipe::~EventPipe() {
  if (!handed_over_) CloseOwn(program_end_);
  CloseOwn(write_end_);
  CloseOwn(own_reader_);
}

bool EventPipe::Write(const void* event) {
  const bool written = write(write_end_, event, event_bytes_) == static_cast<ssize_t>(event_bytes_);
  if (!written && on_loss_) on_loss_();
  return written;
}

uint32_t EventPipe::Withdraw(uint64_t element) {
  std::vector<std::vector<uint8_t>> others;
  uint32_t withdrawn = 0;
  std::vector<uint8_t> event(event_bytes_);
  while (read(own_reader_, event.data(), event_bytes_) == static_cast<ssize_t>(event_bytes_)) {
    if (std::memcmp(event.data(), &element, sizeof element) == 0) {
      ++withdrawn;
    } else {
      others.push_back(event);
    }
  }
  for (const auto& other : others) Write(other.data());
  return withdrawn;
}

void EventSource::SendCompletion() {
  ib_uverbs_comp_event_desc event{};
  event.cq_handle = element_;
  Send(&event);
}

void EventSource::SendAsync(uint32_t type) {
  ib_uverbs_async_event_desc event{};
  event.element = element_;
  event.event_type = type;
  Send(&event);
}

void EventSource::Send(const void* event) {
  if (pipe_ != nullptr && pipe_->Write(event)) ++sent_;
}

uint32_t EventSource::Close() {
  if (pipe_ == nullptr) return 0;
  const uint32_t read = sent_ - pipe_->Withdraw(element_);
  pipe_ = nullptr;
  return read;
}

}  // namespace softhca::uverbs
