#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

namespace warpverbs::programs {

/// Says in one line why a command line is refused, or the variables that stand in for it.
///
/// @param app  that has parsed it
inline std::string Refusal(const CLI::App& app, const std::exception& error) {
  std::string why = error.what();
  if (dynamic_cast<const CLI::Error*>(&error) == nullptr) return app.get_name() + ": " + why + "\n";
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string first = app.remaining().front();
    why = first.front() == '-' ? "there is no option " + first : "nothing takes the argument '" + first + "'";
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string name = why.substr(0, why.find(':'));
    const CLI::Option* const option = app.get_option_no_throw(name);
    const bool again = option != nullptr && option->results().size() > 1;
    why = name + (again ? " is given more than once" : " needs a value");
  }
  return app.get_name() + ": " + why + "; " + app.get_name() + " --help says more\n";
}

}  // namespace warpverbs::programs
