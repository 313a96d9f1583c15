#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warpverbs/device_abi.h"

/// Every function of the device library, called by name, as a binding calls it.
namespace warpverbs::device_library {

/// Arguments by their names in device_abi.h.
using Arguments = std::map<std::string, uint64_t, std::less<>>;

struct Function {
  std::vector<std::string> arguments;
  std::function<uint64_t(const std::vector<uint64_t>&)> call;

  uint64_t operator()(const Arguments& named) const {
    std::vector<uint64_t> values;
    for (const std::string& name : arguments) values.push_back(named.at(name));
    return call(values);
  }
};

/// Returns the names in C's declarations of arguments: the last word before each comma.
inline std::vector<std::string> NamesOf(std::string_view declarations) {
  std::vector<std::string> names;
  std::string name;
  bool ended = true;
  for (const char letter : declarations) {
    if (letter == ',') names.push_back(name);
    if (letter == ' ' || letter == ',') {
      ended = true;
    } else {
      if (std::exchange(ended, false)) name.clear();
      name += letter;
    }
  }
  if (!name.empty() && name != "void") names.push_back(name);
  return names;
}

template <class Result, class... Arguments>
std::function<uint64_t(const std::vector<uint64_t>&)> Caller(Result (*function)(Arguments...)) {
  return [function](const std::vector<uint64_t>& values) -> uint64_t {
    return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
      return function(static_cast<Arguments>(values.at(kIndex))...);
    }
    (std::index_sequence_for<Arguments...>{});
  };
}

inline const std::map<std::string, Function, std::less<>>& Functions() {
  static const std::map<std::string, Function, std::less<>> functions = {
#define WARPVERBS_FUNCTION(result, name, ...) {#name, {NamesOf(#__VA_ARGS__), Caller(name)}},
#define WARPVERBS_ABI_LIST
#include "warpverbs/device_abi.h"
  };
  return functions;
}

inline uint64_t Call(const std::string& name, const Arguments& arguments) {
  const auto found = Functions().find(name);
  if (found == Functions().end()) throw std::invalid_argument(name + " is not in device_abi.h");
  return found->second(arguments);
}

/// The end of a post function's name.
struct Variant {
  std::string group, sharing, scope;

  std::string Suffix() const { return "_" + group + "_" + sharing + "_" + scope; }
};

inline std::vector<Variant> Variants(const std::vector<std::string>& groups = {"thread", "warp", "block",
                                                                               "lanes"}) {
  std::vector<Variant> variants;
  for (const std::string& group : groups) {
    for (const char* sharing : {"exclusive", "shared", "relaxed"}) {
      for (const char* scope : {"gpu", "system"}) variants.push_back({group, sharing, scope});
    }
  }
  return variants;
}

/// Calls a kernel as the threads of a group do: as one thread, or as the four threads of a block of one warp.
inline void RunAs(const std::string& group, std::function<void(uint32_t thread)> kernel) {
  if (group == "thread" || group == "lanes") return kernel(0);
  const auto run = [](void* argument, uint32_t thread) {
    (*static_cast<std::function<void(uint32_t)>*>(argument))(thread);
  };
  if (wv_run_block(run, &kernel, 4, 4) != 0) throw std::runtime_error("the block failed");
}

template <class T>
uint64_t AddressOf(const T& object) {
  return reinterpret_cast<uint64_t>(&object);
}

}  // namespace warpverbs::device_library
