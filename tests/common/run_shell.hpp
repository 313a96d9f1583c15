#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

struct Result {
  int exit_status;     // -1 if a signal ended the command
  std::string output;  // standard output and error
};

/// Runs a command to its end.
inline Result RunShell(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (!pipe) return {-1, "cannot start a shell"};
  Result result{-1, ""};
  std::array<char, 4096> piece;
  while (std::fgets(piece.data(), piece.size(), pipe)) result.output += piece.data();
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  return result;
}

inline bool IsInstalled(const std::string& program) {
  return RunShell("command -v " + program).exit_status == 0;
}
