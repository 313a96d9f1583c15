// What the server and the client are told on their command lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/fabric.hpp"

namespace rdma_demo {

enum class Role : uint8_t { kServer, kClient };

struct Options {
  std::string server{};  ///< the client's: the host to connect to
  uint16_t port = 20000;
  uint64_t bytes = uint64_t{4} << 20;  ///< of each message; a multiple of 4
  std::string memory = "auto";         ///< or host, cuda[:N], hip[:N], gaudi[:PCI address]
  warpverbs::programs::Fabric fabric{};
  bool serves_reads = true;                    ///< the server's: the client may read its memory
  uint8_t rnr_retry = 0;                       ///< each side posts its receives before the other may send
  std::chrono::milliseconds wait{10'000};      ///< for the other side to come
  std::chrono::milliseconds patience{10'000};  ///< for each step
};

/// Reads a command line, and prints what is to be said of it.
///
/// @return  the program's exit status, if there is nothing to run
std::optional<int> ParseCommandLine(int argc, char** argv, Role role, Options& options);

/// The whole of a program: reads its command line and runs it. What it throws ends up as a sentence.
///
/// @param run  answers whether all went well
/// @return     the program's exit status
int RunProgram(int argc, char** argv, Role role, const std::function<bool(const Options&)>& run);

}  // namespace rdma_demo
