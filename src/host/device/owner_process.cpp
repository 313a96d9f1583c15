#include "device/owner_process.hpp"

#include <pthread.h>

namespace warpverbs::inline v0_2::host {
namespace {

uint32_t generation = 0;  // changes in a child before it has threads
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });

}  // namespace

uint32_t OwnerProcess::Generation() { return generation; }

}  // namespace warpverbs::inline v0_2::host
