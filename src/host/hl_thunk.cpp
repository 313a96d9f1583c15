#include "hl_thunk.hpp"

#include <dlfcn.h>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

constexpr char kThunk[] = "libhl-thunk.so";
constexpr char kThunkWhereItsPackageHasIt[] = "/usr/lib/habanalabs/libhl-thunk.so";
constexpr char kInstallThunk[] =
    "Install habanalabs-thunk of Gaudi's software, and in a container pass /dev/accel on to it";

template <class Function>
void FindIfThere(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

template <class Function>
void FindThunk(void* library, const char* name, Function*& function) {
  FindIfThere(library, name, function);
  if (function == nullptr) throw Error("use", kThunk, std::string("it has no ") + name, kInstallThunk);
}

HlThunk LoadThunk() {
  void* library = dlopen(kThunk, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = dlerror();
    library = dlopen(kThunkWhereItsPackageHasIt, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Error("load", kThunk, reason, kInstallThunk);
  }
  HlThunk thunk{};
  FindThunk(library, "hlthunk_open", thunk.Open);
  FindThunk(library, "hlthunk_close", thunk.Close);
  FindThunk(library, "hlthunk_get_pci_bus_id_from_fd", thunk.GetPciBusId);
  FindThunk(library, "hlthunk_device_memory_alloc", thunk.Alloc);
  FindThunk(library, "hlthunk_device_memory_free", thunk.Free);
  FindThunk(library, "hlthunk_device_memory_map", thunk.Map);
  FindThunk(library, "hlthunk_memory_unmap", thunk.Unmap);
  FindThunk(library, "hlthunk_device_memory_export_dmabuf_fd", thunk.Export);
  FindIfThere(library, "hlthunk_device_mapped_memory_export_dmabuf_fd", thunk.ExportMapped);
  return thunk;
}

}  // namespace

const HlThunk& HlThunk::Load() {
  static const HlThunk thunk = LoadThunk();  // where it throws, the next call tries again
  return thunk;
}

}  // namespace warpverbs::host
