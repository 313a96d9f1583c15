#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace warpverbs::host {

/// The functions of AMD's runtimes that this library calls; it is built without them and links none of them.
///
/// @source  ROCm/HIP 6.4, include/hip/hip_runtime_api.h; ROCm/ROCR-Runtime 6.4, inc/hsa.h, inc/hsa_ext_amd.h
struct HipRuntime {
  // hipMemcpyKind
  static constexpr int kHostToDevice = 1;
  static constexpr int kDeviceToHost = 2;

  // Flags of hipExtMallocWithFlags().
  static constexpr unsigned kCached = 0;
  static constexpr unsigned kFineGrained = 1;
  static constexpr unsigned kUncached = 3;

  // Each answers a hipError_t; 0: success.
  int (*GetDeviceCount)(int* count);
  int (*GetDevice)(int* device);
  int (*SetDevice)(int device);
  int (*DeviceGetPCIBusId)(char* text, int bytes, int device);
  int (*Malloc)(void** memory, size_t bytes, unsigned flags);
  int (*Free)(void* memory);
  int (*Memcpy)(void* to, const void* from, size_t bytes, int kind);
  int (*Memset)(void* memory, int value, size_t bytes);
  int (*StreamSynchronize)(void* stream);
  const char* (*GetErrorName)(int error);
  const char* (*GetErrorString)(int error);

  // Each answers an hsa_status_t; 0: success.
  int (*ExportDmaBuf)(const void* memory, size_t bytes, int* file, uint64_t* offset);
  int (*StatusString)(int status, const char** text);

  /// Loads the runtimes for good; the first call counts.
  ///
  /// @errors  Error: there is none, or it lacks a function
  static const HipRuntime& Load();

  /// @errors  Error: a call of HIP has failed
  void Check(int result, const char* step, const std::string& object, const char* remedy) const;

  /// A status of HSA in words.
  std::string StatusWords(int status) const;

  /// A GPU as the thread's current device for a scope, and then the caller's again.
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

}  // namespace warpverbs::host
