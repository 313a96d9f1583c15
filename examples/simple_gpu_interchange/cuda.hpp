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

/// Counts the bytes that have the value, by a kernel of the GPU that they lie on.
uint64_t CountOnCuda(int gpu, const uint8_t* bytes, uint64_t count, uint8_t value);

/// Lets kernels of one GPU look at the memory of another, if the two can; says whether they do.
bool EnablePeerAccess(int from, int to);
