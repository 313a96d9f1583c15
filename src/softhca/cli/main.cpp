#include <cstdio>

#include "cli/launch.hpp"
#include "cli/options.hpp"

int main(int argc, char** argv) {
  const auto command = softhca::ParseCommandLine(argc, argv);
  if (const auto* const answer = std::get_if<softhca::Answer>(&command)) {
    std::fputs(answer->text.c_str(), answer->exit_code == 0 ? stdout : stderr);
    return answer->exit_code;
  }
  return softhca::Launch(std::get<softhca::Options>(command));
}
