#pragma once

#include <cstddef>
#include <cstdint>

#include "ucma/device.hpp"

namespace softhca::ucma {

/// Executes what the program has written to the device. Waits for an event if that is the command, with no
/// lock held.
///
/// @param address  of the command in the program's memory, as a number
/// @errors  Errno, CommandError: of the command; EINVAL for one that is malformed
void RunCommand(Device& device, File& file, uint64_t address, size_t bytes);

/// For messages to users; "command" if it is unreadable.
const char* CommandName(uint64_t address, size_t bytes);

}  // namespace softhca::ucma
