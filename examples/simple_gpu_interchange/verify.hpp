#pragma once

#include <stdexcept>
#include <string>

#include "kernel.hpp"
#include "warpverbs/host/status_text.hpp"

/// Throws std::runtime_error unless the kernel saw its write complete and found every byte.
inline void Verify(const Outcome& outcome, uint32_t bytes) {
  using warpverbs::device::Code;
  if (outcome.status.code == Code::kPending) throw std::runtime_error("The kernel did not run to its end.");
  if (!outcome.status.ok())
    throw std::runtime_error("The write failed: " + warpverbs::host::Describe(outcome.status) + ".");
  if (outcome.right_bytes != bytes) {
    throw std::runtime_error("Only " + std::to_string(outcome.right_bytes) + " of " + std::to_string(bytes) +
                             " bytes are right.");
  }
}
