#pragma once

#include "conversation.hpp"
#include "kernel.hpp"
#include "warpverbs/arch/arch.hpp"

/// Throws std::runtime_error if this program was built without kernels for GPUs.
void RequireCuda();

/// Runs the kernel on a GPU, while the calling thread sleeps. Throws std::runtime_error if it cannot.
///
/// @param scope  how far its releases must reach
Outcome RunOnCuda(int gpu, warpverbs::arch::Scope scope, const Job& job);
Report RunOnCuda(int gpu, warpverbs::arch::Scope scope, const Conversation& job);
