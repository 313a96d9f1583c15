#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// Control of the fake libhl-thunk.so by tests. See README.md.
namespace fake_gaudi {

struct Settings {
  int devices = 1;            ///< number of devices, from "0000:33:00.0" on
  bool mapped_export = true;  ///< Gaudi 2; otherwise the first Gaudi
  int fail_call = 0;          ///< number of the call from now on that fails; 0: none
};
void Configure(const Settings& settings);

/// Returns whether a requested failure has not happened yet.
bool FailurePending();

/// Resources that the program holds.
struct Held {
  int devices = 0;
  int allocations = 0;
  int mappings = 0;

  friend bool operator==(const Held&, const Held&) = default;
};
Held HeldNow();

/// Returns where the processor reaches memory that is mapped at a device address. Aborts if none is mapped
/// there.
std::byte* Reach(const void* device_memory);

}  // namespace fake_gaudi
