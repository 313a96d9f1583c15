#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {

/// Runs something that may hang in a driver, and gives up on it after a while.
///
/// Given up, it goes on in a thread of its own: it must own all that it uses, and the program must leave by
/// std::_Exit().
///
/// @return  empty: it has not ended in time
/// @errors  what `work` throws; Error: the system has no thread left
template <class T>
std::optional<T> RunWithin(std::chrono::seconds patience, std::function<T()> work) {
  std::packaged_task<T()> task(std::move(work));
  std::future<T> result = task.get_future();
  std::thread thread;
  try {
    thread = std::thread(std::move(task));
  } catch (const std::system_error& error) {
    throw host::Error::FromErrno("start", "a thread to wait for drivers in", error.code().value(),
                                 "Raise the limit on threads (ulimit -u)");
  }
  if (result.wait_for(patience) == std::future_status::ready) {
    thread.join();
    return result.get();
  }
  thread.detach();
  return std::nullopt;
}

}  // namespace warpverbs::programs
