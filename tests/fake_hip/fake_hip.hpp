#pragma once

#include <cstddef>

/// What a test can ask of the fake runtimes of AMD and tell them. See README.md.
namespace fake_hip {

struct Settings {
  int devices = 1;           ///< "0000:c1:00.0" and on
  bool exports = true;       ///< memory, as dma-bufs
  bool peer_direct = false;  ///< a NIC reaches what is allocated from now on by its address
  int memory_type = 2;       ///< what it says its memory is, a hipMemoryType: of a device
  int busy_looks = 0;        ///< of those at an event, first, find its stream at work; -1: all
  int fail_call = 0;         ///< the nth call that can fail, from now on, does; 0: none
};
void Configure(const Settings& settings);

/// Whether the failure that was asked for has not happened yet.
bool FailurePending();

/// How many allocations the program holds now.
int HeldNow();

/// How many events the program holds now, and how often it has looked at one.
int EventsNow();
int EventLooks();

/// The flags with which the last allocation was made.
unsigned LastFlags();

/// The calling thread's current device.
int CurrentDevice();
void SetCurrentDevice(int device);

/// Where the processor reaches memory of an address; aborts where there is none.
std::byte* Reach(const void* device_memory);

}  // namespace fake_hip
