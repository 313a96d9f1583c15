#include "settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "fake_cuda.hpp"

namespace fake_cuda {
namespace {

struct Named {
  const char* name;
  int Settings::*field;
};
constexpr Named kNamed[] = {
    {"gpus", &Settings::gpus},
    {"integrated", &Settings::integrated},
    {"dma_buf", &Settings::dma_buf},
    {"mapped_exports", &Settings::mapped_exports},
    {"pcie", &Settings::pcie},
    {"version", &Settings::version},
    {"gpu_direct", &Settings::gpu_direct},
    {"vmm", &Settings::vmm},
    {"writes_ordering", &Settings::writes_ordering},
    {"flush", &Settings::flush},
    {"uar_io", &Settings::uar_io},
    {"uar_plain", &Settings::uar_plain},
    {"same_address", &Settings::same_address},
    {"megabytes", &Settings::megabytes},
    {"delay_us", &Settings::delay_us},
    {"first_mapping", &Settings::first_mapping},
    {"pools", &Settings::pools},
    {"gone_is_error", &Settings::gone_is_error},
};

struct Plan {
  int nth = 0;
  int result = 0;
};

struct State {
  State() {
    if (const char* const text = std::getenv("WARPVERBS_FAKE_CUDA")) settings = Parse(text);
  }

  static Settings Parse(const std::string& text) {
    Settings parsed;
    std::istringstream words(text);
    for (std::string word; std::getline(words, word, ',');) {
      const size_t equals = word.find('=');
      const Named* found = nullptr;
      for (const Named& named : kNamed) {
        if (word.substr(0, equals) == named.name) found = &named;
      }
      if (found == nullptr || equals == std::string::npos)
        Abort("WARPVERBS_FAKE_CUDA", "no setting is named '" + word + "'");
      parsed.*found->field = std::atoi(word.c_str() + equals + 1);
    }
    return parsed;
  }

  std::mutex mutex;
  Settings settings;
  std::map<std::string, int> calls;
  std::map<std::string, Plan> plans;  // nth counts down
  Plan any;
};

State& TheState() {
  static auto* const state = new State;  // never destroyed: threads may call until the program ends
  return *state;
}

/// Counts a call, and returns whether it must fail.
bool IsDue(Plan& plan) { return plan.nth > 0 && --plan.nth == 0; }

}  // namespace

const Settings& Get() { return TheState().settings; }

void Set(const std::string& text) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.settings = State::Parse(text);
  state.calls.clear();
  state.plans.clear();
  state.any = {};
}

int Failure(const char* function, bool gives_back) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  ++state.calls[function];
  const auto plan = state.plans.find(function);
  if (plan != state.plans.end() && IsDue(plan->second)) return plan->second.result;
  return !gives_back && IsDue(state.any) ? state.any.result : 0;
}

void Abort(const char* function, const std::string& misuse) {
  std::fprintf(stderr, "fake_cuda: %s: %s.\n", function, misuse.c_str());
  std::abort();
}

void FailCall(const std::string& function, int nth, int result) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.plans[function] = {nth, result};
}

void FailAnyCall(int nth) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.any = {nth, 999};
}

bool FailurePending() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  for (const auto& [function, plan] : state.plans) {
    if (plan.nth > 0) return true;
  }
  return state.any.nth > 0;
}

int Calls(const std::string& function) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.calls[function];
}

}  // namespace fake_cuda
