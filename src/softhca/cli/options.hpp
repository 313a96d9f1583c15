#pragma once

#include <string>
#include <variant>
#include <vector>

#include "setup/settings.hpp"

namespace softhca {

struct Options {
  Settings settings;
  std::vector<std::string> program;  ///< name and arguments
};

/// What to print instead of running a program.
struct Answer {
  std::string text;
  int exit_code;  ///< 0: what was asked for; 2: what is wrong with the command line
};

std::variant<Options, Answer> ParseCommandLine(int argc, char** argv);

}  // namespace softhca
