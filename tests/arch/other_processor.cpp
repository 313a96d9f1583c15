// Compiles the arch of a CPU as on a processor that it has no barriers for. Needs no test: it compiles.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/arch/cpu_place.hpp"
#include "warpverbs/mlx5/cqe.hpp"

#undef __x86_64__  // the standard headers above have looked at it
#undef __aarch64__

#include "warpverbs/arch/cpu.hpp"
