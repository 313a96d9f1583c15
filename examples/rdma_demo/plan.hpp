// What the two sides do with each other, in this order: both know it, so neither tells the other.
//
// Each side's memory is two slots of a message each: what goes out lies in the first, what comes in lands in
// the second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "integers.hpp"

namespace rdma_demo {

inline constexpr int kRounds = 3;  ///< of a send by the client and the server's answer

constexpr Row Request(int round) { return {.first = 100 * round, .step = 1}; }
constexpr Row Answer(int round) { return {.first = 200 * round, .step = 2}; }
inline constexpr Row kRead{.first = 7000};     ///< what the client reads from the server
inline constexpr Row kWritten{.first = 9000};  ///< what the server writes to the client

/// Comes with the write, when all of it is there.
inline constexpr uint32_t kWrittenImm = 9000;

inline std::vector<std::string> Plan() {
  std::vector<std::string> steps;
  for (int round = 1; round <= kRounds; ++round) steps.push_back("send/receive " + std::to_string(round));
  steps.insert(steps.end(), {"RDMA read", "RDMA write"});
  return steps;
}

}  // namespace rdma_demo
