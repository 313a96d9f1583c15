#pragma once

#include <cstddef>

/// Control of the fake AMD runtimes by tests. See README.md.
namespace fake_hip {

struct Settings {
  int devices = 1;           ///< number of devices, from "0000:c1:00.0" on
  bool exports = true;       ///< whether memory can be exported as dma-bufs
  bool peer_direct = false;  ///< whether NICs reach later allocations by their address
  int memory_type = 2;       ///< reported hipMemoryType; 2: device memory
  int busy_looks = 0;        ///< event queries that first find the stream busy; -1: all
  int fail_call = 0;         ///< number of the call from now on that fails; 0: none
};
void Configure(const Settings& settings);

/// Returns whether a requested failure has not happened yet.
bool FailurePending();

/// Returns how many allocations the program holds.
int HeldNow();

/// Returns how many events the program holds, and how often it has queried one.
int EventsNow();
int EventLooks();

/// Returns the flags of the last allocation.
unsigned LastFlags();

/// Returns the calling thread's current device.
int CurrentDevice();
void SetCurrentDevice(int device);

/// Returns where the processor reaches device memory. Aborts if no memory is at the address.
std::byte* Reach(const void* device_memory);

}  // namespace fake_hip
