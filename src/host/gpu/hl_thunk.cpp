#include "gpu/hl_thunk.hpp"

#include "gpu/shared_library.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr const char* kThunkFiles[] = {"libhl-thunk.so",
                                       "/usr/lib/habanalabs/libhl-thunk.so"};  // the package's folder
constexpr char kInstallThunk[] =
    "Install habanalabs-thunk of Gaudi's software, and in a container pass /dev/accel through to it";

HlThunk LoadThunk() {
  const SharedLibrary library("libhl-thunk.so", kThunkFiles, kInstallThunk);
  HlThunk thunk{};
  library.Find("hlthunk_open", thunk.Open);
  library.Find("hlthunk_close", thunk.Close);
  library.Find("hlthunk_get_pci_bus_id_from_fd", thunk.GetPciBusId);
  library.Find("hlthunk_device_memory_alloc", thunk.Alloc);
  library.Find("hlthunk_device_memory_free", thunk.Free);
  library.Find("hlthunk_device_memory_map", thunk.Map);
  library.Find("hlthunk_memory_unmap", thunk.Unmap);
  library.Find("hlthunk_device_memory_export_dmabuf_fd", thunk.Export);
  library.FindIfThere("hlthunk_device_mapped_memory_export_dmabuf_fd", thunk.ExportMapped);
  return thunk;
}

}  // namespace

const HlThunk& HlThunk::Load() {
  static const HlThunk thunk = LoadThunk();  // if this throws, the next call tries again
  return thunk;
}

}  // namespace warpverbs::inline v0_2::host
