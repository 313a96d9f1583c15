#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "fake_hip.hpp"

namespace fake_hip {

constexpr uint64_t kHead = 3 * 65536;  // bytes of the file before the allocation

struct Allocation {
  int device = -1;
  int file = -1;
  uint64_t bytes = 0;
  uint64_t id = 0;             // unique id
  std::byte* pages = nullptr;  // host mapping of the file
};

struct State {
  std::mutex mutex;
  Settings settings;
  std::map<uint64_t, Allocation> allocations;  // allocations by address
  unsigned last_flags = 0;
  uint64_t last_id = 0;
  int events = 0;
  int event_looks = 0;
  std::function<void()> later;  // copy that is not executed yet
};
State& TheState();

[[noreturn]] void Abort(const char* function, const char* misuse);

bool Fails(State& state);

uint64_t Allocate(State& state, int device, uint64_t bytes);
void Release(State& state, uint64_t address);

/// Returns the allocation that contains a whole range, or nullptr.
const Allocation* Find(State& state, const void* memory, uint64_t bytes, uint64_t& offset);

}  // namespace fake_hip
