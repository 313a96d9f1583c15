#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {

/// Starts a thread.
///
/// @param purpose  completes "a thread ...": "that receives", "for drivers that may hang"
/// @errors  Error: the system has no thread left
template <class Work>
std::jthread StartThread(const char* purpose, Work&& work) {
  try {
    return std::jthread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw host::Error::FromErrno("start", std::string("a thread ") + purpose, error.code().value(),
                                 "Raise the limits on threads and memory (ulimit -u, ulimit -v)");
  }
}

/// Runs work that may hang in a driver, and abandons it after a timeout.
///
/// Abandoned work continues in its own thread: it must own everything that it uses, and the program must
/// leave by std::_Exit().
///
/// @return  empty if the work did not end in time
/// @errors  what `work` throws; as StartThread()
template <class T>
std::optional<T> RunWithin(std::chrono::seconds timeout, std::function<T()> work) {
  std::packaged_task<T()> task(std::move(work));
  std::future<T> result = task.get_future();
  std::jthread thread = StartThread("for drivers that may hang", std::move(task));
  if (result.wait_for(timeout) == std::future_status::ready) return result.get();
  thread.detach();
  return std::nullopt;
}

}  // namespace warpverbs::programs
