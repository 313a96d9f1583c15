#pragma once

#include <string>
#include <variant>
#include <vector>

#include "setup/settings.hpp"

namespace softhca {

/// The launcher's command line.
struct Options {
  Settings settings;
  std::vector<std::string> program;  ///< program name and arguments
};

/// Text to print instead of running a program.
struct Message {
  std::string text;
  int exit_code;  ///< 0: help or version; 2: error in the command line
};

/// Parses and checks the command line.
std::variant<Options, Message> ParseCommandLine(int argc, char** argv);

}  // namespace softhca
