#pragma once

#include <functional>

#include "sync/mutex.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Keeps a mutex usable in forked children: fork() waits until no thread holds it. A child has only the
/// thread that forked, so a mutex that another one held would stay locked there.
///
/// @param mutex     lives as long as the process; a thread that holds it locks no other of these
/// @param in_child  called in each child, before its fork() returns; locks none of these
void GuardOverFork(sync::Mutex& mutex, std::function<void()> in_child = {});

}  // namespace warpverbs::inline v0_2::gpuio
