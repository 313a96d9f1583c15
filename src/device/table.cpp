// Prints the table of the device library as JSON, from which bindings are made: every function of
// warpverbs/device_abi.h with its arguments, and every constant.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "warpverbs/device_abi.h"
#include "warpverbs/version.hpp"

namespace {

struct Function {
  const char* result;
  const char* name;
  const char* arguments;  // as in C: "uint64_t queue, uint32_t flags", or "void"
};

constexpr Function kFunctions[] = {
#define WARPVERBS_FUNCTION(result, name, ...) {#result, #name, #__VA_ARGS__},
#define WARPVERBS_ABI_LIST
#include "warpverbs/device_abi.h"
};

struct Constant {
  const char* name;
  int value;
};

constexpr Constant kConstants[] = {
#define WARPVERBS_CONSTANT(name, value) {#name, value},
#define WARPVERBS_ABI_LIST
#include "warpverbs/device_abi.h"
};

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

void PrintQuoted(std::string_view text) {
  std::printf("\"%.*s\"", static_cast<int>(text.size()), text.data());
}

/// Prints C's declarations of arguments as a list of pairs of type and name.
void PrintArguments(std::string_view rest) {
  std::printf("[");
  if (rest == "void") rest = {};
  while (!rest.empty()) {
    const size_t length = std::min(rest.find(','), rest.size());
    const std::string_view argument = Trimmed(rest.substr(0, length));
    const size_t space = argument.rfind(' ');
    std::printf("[");
    PrintQuoted(argument.substr(0, space));
    std::printf(", ");
    PrintQuoted(argument.substr(space + 1));
    std::printf("]");
    if (length == rest.size()) break;
    rest.remove_prefix(length + 1);
    std::printf(", ");
  }
  std::printf("]");
}

}  // namespace

int main() {
  std::printf("{\n  \"version\": \"%d.%d.%d\",\n  \"constants\": {", WARPVERBS_VERSION_MAJOR,
              WARPVERBS_VERSION_MINOR, WARPVERBS_VERSION_PATCH);
  const char* separator = "\n";
  for (const Constant& constant : kConstants) {
    std::printf("%s    \"%s\": %d", separator, constant.name, constant.value);
    separator = ",\n";
  }
  std::printf("\n  },\n  \"functions\": [");
  separator = "\n";
  for (const Function& function : kFunctions) {
    std::printf("%s    {\"name\": \"%s\", \"result\": \"%s\", \"arguments\": ", separator, function.name,
                function.result);
    PrintArguments(function.arguments);
    std::printf("}");
    separator = ",\n";
  }
  std::printf("\n  ]\n}\n");
}
