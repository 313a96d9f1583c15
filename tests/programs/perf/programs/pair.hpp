#pragma once

#include <string>

#include "common/run_shell.hpp"

/// The outputs and exit statuses of a server and a client of warpverbs-perf.
struct PerfPair {
  std::string server, client;
  int server_status = -1, client_status = -1;
  double client_seconds = 0;  ///< run time
};

enum class Output { kFile, kTerminal };

/// Runs a server and a client, each on its own software HCA, on a free port.
///
/// @param server, client                  options of warpverbs-perf
/// @param server_softhca, client_softhca  options of softhca
/// @param environment                     variables of both: "NAME=VALUE NAME=VALUE"
/// @param client_at                       destination of the client's output
PerfPair RunPerfPair(const std::string& server, const std::string& client,
                     const std::string& server_softhca = "", const std::string& client_softhca = "",
                     const std::string& environment = "", Output client_at = Output::kFile);

/// Runs both sides with the same options.
inline PerfPair RunPerf(const std::string& options) { return RunPerfPair(options, options); }

/// Returns the table and everything after it.
std::string TableOf(const std::string& output);
