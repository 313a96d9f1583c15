#pragma once

#include <string>

#include "common/run_shell.hpp"

/// Runs a program that prints "listening on port N", and another whose command line has N as $port. Both are
/// killed after a minute.
///
/// @param before  shell commands to run before the second program; they have N as $port, too
/// @return  output of both, each line after "listener: " or "connector: ", and both exit statuses
inline std::string RunTwoSides(const std::string& listener, const std::string& connector,
                               const std::string& before = "") {
  return RunShell("folder=$(mktemp -d); trap 'rm -r $folder' EXIT\n" + listener +
                  " >$folder/listener 2>&1 & listener=$!\n"
                  "for _ in $(seq 400); do\n"
                  "  port=$(sed -n 's/.*listening on port //p' $folder/listener); [ -z \"$port\" ] || break\n"
                  "  kill -0 $listener 2>/dev/null || break; sleep 0.05\n"
                  "done\n" +
                  before + connector +
                  " >$folder/connector 2>&1; connector=$?\n"
                  "wait $listener; listener=$?\n"
                  "sed 's/^/listener: /' $folder/listener; sed 's/^/connector: /' $folder/connector\n"
                  "echo listener exits with $listener; echo connector exits with $connector")
      .output;
}

/// Returns the command line of a program on a software HCA of its own.
///
/// @param prefix  start of the whole command line
inline std::string OnSofthca(const std::string& softhca_options, const std::string& program,
                             const std::string& prefix = "") {
  return prefix + " timeout -s KILL 60 " SOFTHCA " " + softhca_options + " -- " + program;
}
