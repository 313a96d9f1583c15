#pragma once

#include <string>

#include "common/run_shell.hpp"

/// What a server and a client of warpverbs-perf printed, and how they ended.
struct PerfPair {
  std::string server, client;
  int server_status = -1, client_status = -1;
  double client_seconds = 0;  ///< from its start to its end
};

enum class Output { kFile, kTerminal };

/// Each on a software HCA of its own, at a free port.
///
/// @param server, client                  options of warpverbs-perf
/// @param server_softhca, client_softhca  options of softhca
/// @param environment                     of both: "NAME=VALUE NAME=VALUE"
/// @param client_at                       what the client's output goes to
PerfPair RunPerfPair(const std::string& server, const std::string& client,
                     const std::string& server_softhca = "", const std::string& client_softhca = "",
                     const std::string& environment = "", Output client_at = Output::kFile);

/// The same options on both sides.
inline PerfPair RunPerf(const std::string& options) { return RunPerfPair(options, options); }

/// The table and what follows it.
std::string TableOf(const std::string& output);
