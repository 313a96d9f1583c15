#pragma once

#include <string>

#include "machine/survey.hpp"

/// What can only be found out by doing it. Each throws host::Error or another std::exception where it fails.
namespace warpverbs::tools {

/// Connects two endpoints of this process on one port, writes from one to the other by the CPU, and verifies
/// the data.
///
/// @return  what was done, in words
std::string TransferOnPort(const std::string& nic, uint8_t port);

/// Maps a doorbell register of a NIC for a GPU.
///
/// @param gpu     the ordinal
/// @param mapped  set to whether the GPU reaches it: else a host thread must ring
/// @return  how, or why not
std::string MapDoorbell(const std::string& nic, int gpu, bool& mapped);

/// Registers memory of a GPU with a NIC.
///
/// @return  by which rung
std::string RegisterGpuMemory(const std::string& nic, int gpu);

}  // namespace warpverbs::tools
