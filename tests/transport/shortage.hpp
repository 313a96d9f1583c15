#pragma once

#include <cstdint>

namespace warpverbs::transport {

/// Lets calls of operator new fail that the program itself makes in this thread: not its libraries, as
/// softhca is one of them. Link shortage.cpp.
///
/// @param number  of the call, from 1 on, that fails first; 0: none
/// @param and_on  whether all that follow fail too
void FailAllocation(uint64_t number, bool and_on = false);

/// Lets epoll refuse every file that it is to watch from now on. Link shortage.cpp.
///
/// @param error_number  an errno value; 0: none
void FailWatching(int error_number);

/// Lets libibverbs refuse the address of every peer from now on. Link shortage.cpp.
///
/// @param error_number  an errno value; 0: none
void FailAddresses(int error_number);

}  // namespace warpverbs::transport
