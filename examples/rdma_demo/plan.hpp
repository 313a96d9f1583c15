// The steps, in order. Both sides know them, so they need not agree on them.
//
// The memory of each side has two slots of one message each: outgoing first, incoming second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "integers.hpp"

namespace rdma_demo {

inline constexpr int kRounds = 3;  ///< number of requests by the client, each with an answer

constexpr Sequence Request(int round) { return {.first = 100 * round, .step = 1}; }
constexpr Sequence Answer(int round) { return {.first = 200 * round, .step = 2}; }
inline constexpr Sequence kRead{.first = 7000};     ///< integers that the client reads from the server
inline constexpr Sequence kWritten{.first = 9000};  ///< integers that the server writes to the client

/// Immediate data of the write. They arrive after all of its bytes.
inline constexpr uint32_t kWrittenImm = 9000;

/// Returns the names of all steps.
inline std::vector<std::string> Plan() {
  std::vector<std::string> steps;
  for (int round = 1; round <= kRounds; ++round) steps.push_back("send/receive " + std::to_string(round));
  steps.insert(steps.end(), {"RDMA read", "RDMA write"});
  return steps;
}

}  // namespace rdma_demo
