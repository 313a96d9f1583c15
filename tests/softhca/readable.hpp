#pragma once

#include <poll.h>

/// Whether a descriptor becomes readable within `timeout_ms`.
inline bool Readable(int fd, int timeout_ms) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, timeout_ms) == 1 && (entry.revents & POLLIN) != 0;
}
