#pragma once

#include <pthread.h>

#include <string_view>

#include "sync/mutex.hpp"

namespace warpverbs::inline v0_2::host {

/// Keeps a mutex of the whole program usable in a forked child, also if another thread had it: the thread
/// that forks holds it meanwhile. Make one object for each mutex, and nest no two of them.
template <sync::Mutex& Mutex>
struct ForkSafe {
  ForkSafe() { pthread_atfork(Lock, Unlock, Unlock); }

 private:
  // The analysis knows no mutex that is a template's argument.
  static void Lock() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS { Mutex.lock(); }
  static void Unlock() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS { Mutex.unlock(); }
};

/// Writes a line to stderr and waits at most 100 ms for its reader, so that no thread of the library hangs in
/// its log. Drops the line if there is still no room, and drops later lines without waiting. The next line
/// that fits comes after the number of dropped lines.
///
/// Another process that writes to the same pipe may take the room that was found. Then this blocks.
///
/// @param line  including its newline
void WriteToStderr(std::string_view line);

}  // namespace warpverbs::inline v0_2::host
