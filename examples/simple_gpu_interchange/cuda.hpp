#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "conversation.hpp"
#include "kernel.hpp"

/// Says whether a GPU's kernels can store to a NIC's doorbell register, by mapping it. Throws
/// std::runtime_error if there is no such GPU.
bool CanRing(int gpu, uint64_t* doorbell);

/// Runs the kernel on a GPU. Throws std::runtime_error if it cannot.
///
/// @param rings   the kernel rings the NIC's register: it must be mapped too
/// @param memory  all else that the job points to, in whole pages
Outcome RunOnCuda(int gpu, const Job& job, bool rings, const std::vector<std::span<std::byte>>& memory);
Report RunOnCuda(int gpu, const Conversation& job, bool rings,
                 const std::vector<std::span<std::byte>>& memory);
