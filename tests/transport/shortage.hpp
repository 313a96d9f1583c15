#pragma once

#include <cstdint>

namespace warpverbs::inline v0_2::transport {

/// Lets calls of operator new on this thread fail, if the program itself makes them and not a library:
/// softhca is one. Link shortage.cpp.
///
/// @param number   number of the first call that fails, from 1; 0: none fails
/// @param and_all  also fails all later calls
void FailAllocation(uint64_t number, bool and_all = false);

/// Lets epoll refuse to watch any file from now on. Link shortage.cpp.
///
/// @param error_number  errno value of the error; 0: no error
void FailWatching(int error_number);

/// Lets libibverbs refuse every address handle from now on. Link shortage.cpp.
///
/// @param error_number  errno value of the error; 0: no error
void FailAddresses(int error_number);

}  // namespace warpverbs::inline v0_2::transport
