#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "warpverbs/host/error.hpp"

namespace warpverbs::perf {

/// @param what  that the thread does: "that tells how long it takes"
/// @errors  Error: the system has none left
template <class Work>
std::jthread StartThread(const char* what, Work&& work) {
  try {
    return std::jthread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw host::Error::FromErrno("start", std::string("a thread ") + what, error.code().value(),
                                 "Raise the limit on threads (ulimit -u)");
  }
}

}  // namespace warpverbs::perf
