#pragma once

#include <stdexcept>
#include <string>

#include "kernel.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Throws std::runtime_error unless the kernel saw its write complete and found every byte.
inline void Verify(const Outcome& outcome, uint32_t bytes) {
  using warpverbs::device::Code;
  if (outcome.status.code == Code::kPending) throw std::runtime_error("The kernel did not run to its end.");
  if (outcome.status.code == Code::kTimeout) throw std::runtime_error("The write did not complete in time.");
  if (!outcome.status.ok()) {
    const warpverbs::mlx5::Syndrome syndrome{outcome.status.syndrome};
    throw std::runtime_error(std::string("The write failed: ") + Describe(syndrome) + ".");
  }
  if (outcome.right_bytes != bytes) {
    throw std::runtime_error("Only " + std::to_string(outcome.right_bytes) + " of " + std::to_string(bytes) +
                             " bytes are right.");
  }
}
