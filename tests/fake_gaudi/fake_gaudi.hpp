#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// What a test can ask of the fake libhl-thunk.so and tell it. See README.md.
namespace fake_gaudi {

struct Settings {
  int devices = 1;            ///< "0000:33:00.0" and on
  bool mapped_export = true;  ///< Gaudi 2; else the first
  int fail_call = 0;          ///< the nth call that can fail, from now on, does; 0: none
};
void Configure(const Settings& settings);

/// Whether the failure that was asked for has not happened yet.
bool FailurePending();

/// What the program holds now.
struct Held {
  int devices = 0;
  int allocations = 0;
  int mappings = 0;

  friend bool operator==(const Held&, const Held&) = default;
};
Held HeldNow();

/// Where the processor reaches memory that is mapped at an address of the device; aborts where none is.
std::byte* Reach(const void* device_memory);

}  // namespace fake_gaudi
