#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "warpverbs/host/dma_buf.hpp"

namespace warpverbs::inline v0_2::host {

/// The functions of AMD's runtimes that this library calls. It is built without them and not linked with
/// them.
///
/// @source  ROCm/HIP 6.4, include/hip/hip_runtime_api.h; ROCm/ROCR-Runtime 6.4, inc/hsa.h, inc/hsa_ext_amd.h
struct HipRuntime {
  // hipMemcpyKind
  static constexpr int kHostToDevice = 1;
  static constexpr int kDeviceToHost = 2;
  static constexpr int kDeviceToDevice = 3;

  // Flags of hipExtMallocWithFlags().
  static constexpr unsigned kCached = 0;
  static constexpr unsigned kFineGrained = 1;
  static constexpr unsigned kUncached = 3;

  // Flags of hipEventCreateWithFlags(). The second one lets NICs see what was written before the event.
  static constexpr unsigned kEventWithoutTime = 2, kEventToSystem = 0x80000000;

  // Kinds of memory of hipPointerGetAttributes().
  static constexpr int kHost = 1, kDevice = 2, kManaged = 3;
  static constexpr int kInvalidValue = 1, kNotInitialized = 3, kNoDevice = 100, kNotReady = 600;
  static constexpr int kBufferId = 7;  ///< member of hipPointer_attribute

  struct PointerAttributes {
    int type;
    int device;
    void* device_pointer;
    void* host_pointer;
    int is_managed;
    unsigned flags;
  };

  // Each returns a hipError_t, 0 for success.
  int (*GetDeviceCount)(int* count);
  int (*GetDevice)(int* device);
  int (*SetDevice)(int device);
  int (*DeviceGetPCIBusId)(char* text, int bytes, int device);
  int (*Malloc)(void** memory, size_t bytes, unsigned flags);
  int (*Free)(void* memory);
  int (*Memcpy)(void* to, const void* from, size_t bytes, int kind);
  int (*Memset)(void* memory, int value, size_t bytes);
  int (*StreamSynchronize)(void* stream);
  int (*EventCreate)(void** event, unsigned flags);
  int (*EventRecord)(void* event, void* stream);
  int (*EventQuery)(void* event);
  int (*EventDestroy)(void* event);
  int (*PointerGetAttributes)(PointerAttributes* attributes, const void* memory);
  int (*PointerGetAttribute)(void* value, int attribute, void* memory);
  int (*MemGetAddressRange)(void** base, size_t* bytes, void* memory);
  int (*PeekAtLastError)();
  int (*GetLastError)();
  const char* (*GetErrorName)(int error);
  const char* (*GetErrorString)(int error);

  // Each returns an hsa_status_t, 0 for success.
  int (*ExportDmaBuf)(const void* memory, size_t bytes, int* file, uint64_t* offset);
  int (*StatusString)(int status, const char** text);

  /// Loads the runtimes on the first call. They stay loaded.
  ///
  /// @errors  Error: no runtime is installed, or it lacks a function
  static const HipRuntime& Load();

  /// Returns the runtimes if the program has loaded HIP's, else nullptr. Loads nothing.
  static const HipRuntime* FindLoaded();

  /// Exports a range of GPU memory. The file covers more if the allocation is part of a larger one.
  ///
  /// @param name  the GPU, for errors
  /// @errors  Error
  /// @source  ROCm/ROCR-Runtime 6.4, core/runtime/runtime.cpp, Runtime::DmaBufExport()
  DmaBuf Export(const void* memory, size_t bytes, const std::string& name) const;

  /// @errors  Error: the HIP call failed
  void Check(int result, const char* step, const std::string& object, const char* remedy) const;

  /// Describes an HSA status.
  std::string DescribeStatus(int status) const;

  /// Makes a GPU the thread's current device for a scope and restores the previous one afterwards.
  class Current {
   public:
    Current(const HipRuntime& runtime, int device, const std::string& name);  // throws Error
    ~Current() { runtime_.SetDevice(before_); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const HipRuntime& runtime_;
    int before_ = 0;
  };
};

}  // namespace warpverbs::inline v0_2::host
