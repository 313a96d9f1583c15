#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernel.hpp"

/// Runs the kernel on a GPU. Throws std::runtime_error if it cannot.
///
/// @param memory  all that the job points to but the doorbell, in whole pages
Outcome RunOnCuda(int gpu, const Job& job, const std::vector<std::span<std::byte>>& memory);
