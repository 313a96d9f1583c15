#include "gpu/hip_runtime.hpp"

#include <link.h>

#include <string_view>

#include "gpu/shared_library.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr char kInstallRocm[] =
    "Install ROCm 6 or later, and in a container pass /dev/kfd and /dev/dri through to it";
constexpr char kLookAtRocmSmi[] = "Check the GPU's health with rocm-smi and dmesg";

// Development packages install the names without a version.
constexpr const char* kHipNames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so",
                                     "/opt/rocm/lib/libamdhip64.so"};
constexpr const char* kHsaNames[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so",
                                     "/opt/rocm/lib/libhsa-runtime64.so.1"};

HipRuntime LoadHip() {
  HipRuntime runtime{};
  const SharedLibrary hip("libamdhip64.so", kHipNames, kInstallRocm);
  hip.Find("hipGetDeviceCount", runtime.GetDeviceCount);
  hip.Find("hipGetDevice", runtime.GetDevice);
  hip.Find("hipSetDevice", runtime.SetDevice);
  hip.Find("hipDeviceGetPCIBusId", runtime.DeviceGetPCIBusId);
  hip.Find("hipExtMallocWithFlags", runtime.Malloc);
  hip.Find("hipFree", runtime.Free);
  hip.Find("hipMemcpy", runtime.Memcpy);
  hip.Find("hipMemset", runtime.Memset);
  hip.Find("hipStreamSynchronize", runtime.StreamSynchronize);
  hip.Find("hipEventCreateWithFlags", runtime.EventCreate);
  hip.Find("hipEventRecord", runtime.EventRecord);
  hip.Find("hipEventQuery", runtime.EventQuery);
  hip.Find("hipEventDestroy", runtime.EventDestroy);
  hip.Find("hipPointerGetAttributes", runtime.PointerGetAttributes);
  hip.Find("hipPointerGetAttribute", runtime.PointerGetAttribute);
  hip.Find("hipMemGetAddressRange", runtime.MemGetAddressRange);
  hip.Find("hipPeekAtLastError", runtime.PeekAtLastError);
  hip.Find("hipGetLastError", runtime.GetLastError);
  hip.Find("hipGetErrorName", runtime.GetErrorName);
  hip.Find("hipGetErrorString", runtime.GetErrorString);
  const SharedLibrary hsa("libhsa-runtime64.so", kHsaNames, kInstallRocm);
  hsa.Find("hsa_amd_portable_export_dmabuf", runtime.ExportDmaBuf);
  hsa.Find("hsa_status_string", runtime.StatusString);
  return runtime;
}

}  // namespace

const HipRuntime& HipRuntime::Load() {
  static const HipRuntime runtime = LoadHip();  // if this throws, the next call tries again
  return runtime;
}

const HipRuntime* HipRuntime::FindLoaded() {
  // Every registration gets here. dlopen() would search for files if nothing is loaded.
  const auto is_hip = [](dl_phdr_info* info, size_t, void*) {
    const std::string_view path = info->dlpi_name;
    return static_cast<int>(path.substr(path.rfind('/') + 1).starts_with("libamdhip64.so"));
  };
  if (dl_iterate_phdr(is_hip, nullptr) == 0) return nullptr;
  try {
    return &Load();
  } catch (const Error&) {  // a program that uses no AMD GPU need not care about an old runtime
    return nullptr;
  }
}

DmaBuf HipRuntime::Export(const void* memory, size_t bytes, const std::string& name) const {
  int fd = -1;
  uint64_t offset = 0;
  const int status = ExportDmaBuf(memory, bytes, &fd, &offset);
  if (status != 0) {
    throw Error(
        "export", std::to_string(bytes) + " bytes of memory of " + name, DescribeStatus(status),
        "Use Linux 5.12 or later with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY, and the driver "
        "amdgpu");
  }
  return {FileDescriptor(fd), reinterpret_cast<uint64_t>(memory) - offset, offset + bytes};
}

void HipRuntime::Check(int result, const char* step, const std::string& object, const char* remedy) const {
  if (result == 0) return;
  throw Error(step, object, std::string(GetErrorString(result)) + " (" + GetErrorName(result) + ")", remedy);
}

std::string HipRuntime::DescribeStatus(int status) const {
  const char* text = nullptr;
  if (StatusString(status, &text) != 0 || text == nullptr) return "HSA status " + std::to_string(status);
  std::string words = text;
  while (words.ends_with('.')) words.pop_back();  // the runtime ends its text with a full stop
  return words;
}

HipRuntime::Current::Current(const HipRuntime& runtime, int device, const std::string& name)
    : runtime_(runtime) {
  runtime.Check(runtime.GetDevice(&before_), "tell the current device from", name, kLookAtRocmSmi);
  runtime.Check(runtime.SetDevice(device), "use", name, kLookAtRocmSmi);
}

}  // namespace warpverbs::inline v0_2::host
