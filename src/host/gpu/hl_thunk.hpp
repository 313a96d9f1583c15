#pragma once

#include <cstdint>
#include <string>

namespace warpverbs::inline v0_2::host {

/// The functions of libhl-thunk.so that this library calls. It is built without it and not linked with it.
///
/// @source  HabanaAI/HCL, dependencies/hl-thunk/include/uapi/hlthunk.h
struct HlThunk {
  static constexpr int kAnyDevice = 4;  // HLTHUNK_DEVICE_DONT_CARE

  // A failed call returns a negative errno value as descriptor or result, and 0 as handle or address.
  int (*Open)(int device_name, const char* pci_address);
  int (*Close)(int device);
  int (*GetPciBusId)(int device, char* text, int bytes);
  uint64_t (*Alloc)(int device, uint64_t bytes, uint64_t page_bytes, bool contiguous, bool shared);
  int (*Free)(int device, uint64_t handle);
  uint64_t (*Map)(int device, uint64_t handle, uint64_t hint);
  int (*Unmap)(int device, uint64_t address);
  int (*Export)(int device, uint64_t address, uint64_t bytes, uint32_t flags);  // the first Gaudi
  int (*ExportMapped)(int device, uint64_t address, uint64_t bytes, uint64_t offset,
                      uint32_t flags);  // Gaudi 2 and later; nullptr if the library is older

  /// Loads the library on the first call. It stays loaded.
  ///
  /// @errors  Error: the library is not installed, or it lacks a function
  static const HlThunk& Load();
};

}  // namespace warpverbs::inline v0_2::host
