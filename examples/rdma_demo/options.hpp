// The command lines of the server and the client.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/device_selection.hpp"

namespace rdma_demo {

enum class Role : uint8_t { kServer, kClient };

struct Options {
  std::string server{};  ///< host that the client connects to
  uint16_t port = 20000;
  uint64_t bytes = uint64_t{4} << 20;  ///< size of each message; a multiple of 4
  std::string memory = "auto";         ///< auto, host, cuda[:N], hip[:N] or gaudi[:PCI address]
  warpverbs::programs::DeviceSelection fabric{};
  bool serves_reads = true;  ///< the client may read the server's memory
  uint8_t rnr_retry = 0;     ///< retries of a send without a receive; 0: receives are always posted first
  std::chrono::milliseconds wait{10'000};     ///< longest time until the other side connects
  std::chrono::milliseconds timeout{10'000};  ///< longest time of each step
};

/// Parses a command line. Prints help or an error if there is nothing to run.
///
/// @return  exit status of the program if there is nothing to run
std::optional<int> ParseCommandLine(int argc, char** argv, Role role, Options& options);

/// Runs a program: parses its command line, runs it, and prints exceptions as sentences.
///
/// @param run  returns true if no step failed
/// @return     exit status of the program
int RunProgram(int argc, char** argv, Role role, const std::function<bool(const Options&)>& run);

}  // namespace rdma_demo
