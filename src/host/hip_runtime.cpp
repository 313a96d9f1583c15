#include "hip_runtime.hpp"

#include <dlfcn.h>

#include <span>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

constexpr char kInstallRocm[] =
    "Install ROCm 6 or later, and in a container pass /dev/kfd and /dev/dri on to it";
constexpr char kLookAtRocmSmi[] = "Check the GPU's health with rocm-smi and dmesg";

// The bare names are of packages for developers.
constexpr const char* kHipNames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so",
                                     "/opt/rocm/lib/libamdhip64.so"};
constexpr const char* kHsaNames[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so",
                                     "/opt/rocm/lib/libhsa-runtime64.so.1"};

/// A library by the first of its names that works: a program has the runtime only once, so what it has loaded
/// goes before what is newest.
void* OpenAnyOf(std::span<const char* const> names, const char* what) {
  for (const int flags : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const char* name : names) {
      void* const library = dlopen(name, flags);
      if (library != nullptr) return library;
    }
  }
  throw Error("load", what, dlerror(), kInstallRocm);
}

template <class Function>
void FindInRocm(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw Error("use", "ROCm", std::string("it has no ") + name, kInstallRocm);
}

HipRuntime LoadHip() {
  HipRuntime runtime{};
  void* const hip = OpenAnyOf(kHipNames, "libamdhip64.so");
  FindInRocm(hip, "hipGetDeviceCount", runtime.GetDeviceCount);
  FindInRocm(hip, "hipGetDevice", runtime.GetDevice);
  FindInRocm(hip, "hipSetDevice", runtime.SetDevice);
  FindInRocm(hip, "hipDeviceGetPCIBusId", runtime.DeviceGetPCIBusId);
  FindInRocm(hip, "hipExtMallocWithFlags", runtime.Malloc);
  FindInRocm(hip, "hipFree", runtime.Free);
  FindInRocm(hip, "hipMemcpy", runtime.Memcpy);
  FindInRocm(hip, "hipMemset", runtime.Memset);
  FindInRocm(hip, "hipStreamSynchronize", runtime.StreamSynchronize);
  FindInRocm(hip, "hipGetErrorName", runtime.GetErrorName);
  FindInRocm(hip, "hipGetErrorString", runtime.GetErrorString);
  void* const hsa = OpenAnyOf(kHsaNames, "libhsa-runtime64.so");
  FindInRocm(hsa, "hsa_amd_portable_export_dmabuf", runtime.ExportDmaBuf);
  FindInRocm(hsa, "hsa_status_string", runtime.StatusString);
  return runtime;
}

}  // namespace

const HipRuntime& HipRuntime::Load() {
  static const HipRuntime runtime = LoadHip();  // where it throws, the next call tries again
  return runtime;
}

void HipRuntime::Check(int result, const char* step, const std::string& object, const char* remedy) const {
  if (result == 0) return;
  throw Error(step, object, std::string(GetErrorString(result)) + " (" + GetErrorName(result) + ")", remedy);
}

std::string HipRuntime::StatusWords(int status) const {
  const char* text = nullptr;
  if (StatusString(status, &text) != 0 || text == nullptr) return "HSA status " + std::to_string(status);
  std::string words = text;
  while (words.ends_with('.')) words.pop_back();  // it comes as a sentence
  return words;
}

HipRuntime::Current::Current(const HipRuntime& runtime, int device, const std::string& name)
    : runtime_(runtime) {
  runtime.Check(runtime.GetDevice(&before_), "tell the current device from", name, kLookAtRocmSmi);
  runtime.Check(runtime.SetDevice(device), "use", name, kLookAtRocmSmi);
}

}  // namespace warpverbs::host
