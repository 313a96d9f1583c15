// Memory regions, and where memory of other packages is.
#include "warpverbs/host/memory.hpp"

#include <bit>
#include <tuple>

#include "devices.hpp"
#include "warpverbs/host/buffer.hpp"

namespace warpverbs::python {
namespace {

/// The first fields of a tensor that crosses between packages.
///
/// @source  dmlc/dlpack v0.8, include/dlpack/dlpack.h, DLTensor
struct DlTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t dimensions;
  uint8_t type_code;
  uint8_t type_bits;
  uint16_t type_lanes;
  const int64_t* shape;
  const int64_t* strides;  // in elements; null: row-major, without gaps
  uint64_t byte_offset;
};

/// Returns address and bytes of a tensor without gaps, and the kind and number of its device.
///
/// @errors  BufferError: it has gaps; TypeError: it was taken, or has another version
std::tuple<uint64_t, uint64_t, int, int> ReadDlpack(const py::capsule& capsule) {
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    const char* const name = capsule.name();
    throw py::type_error("Cannot register a tensor: its capsule is named '" +
                         std::string(name == nullptr ? "" : name) +
                         "', and not 'dltensor'. Pass a tensor that shows its memory by DLPack before 1.0.");
  }
  const auto& tensor = *static_cast<const DlTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  uint64_t elements = 1;
  for (int i = tensor.dimensions - 1; i >= 0; --i) {
    const bool has_gap = tensor.strides != nullptr && tensor.shape[i] > 1 &&
                         static_cast<uint64_t>(tensor.strides[i]) != elements;
    if (has_gap) {
      throw py::buffer_error(
          "Cannot register a tensor: its elements are not contiguous in memory. Register a contiguous copy.");
    }
    elements *= static_cast<uint64_t>(tensor.shape[i]);
  }
  const uint64_t bytes = (elements * tensor.type_bits * tensor.type_lanes + 7) / 8;
  return {reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset, bytes, tensor.device_type,
          tensor.device_id};
}

uint64_t AddressOf(const py::memoryview& view) {
  return reinterpret_cast<uint64_t>(PyMemoryView_GET_BUFFER(view.ptr())->buf);
}

struct RegionObject {
  std::shared_ptr<const host::Device> device;
  host::MemoryRegion region;
};

/// What warpverbs.Region is made of: a registration, and the object that owns its memory.
class Region : public ZeroedMemory {
 public:
  Region(const Device& device, uint64_t address, uint64_t bytes, py::object owner, const py::dict& rights)
      : owner_(std::move(owner)), handle_(Name(address, bytes), Register(device, address, bytes, rights)) {
    view_ = handle_.Get()->region.View();
  }

  /// Address, bytes, lkey and rkey, the keys in wire order.
  std::tuple<uint64_t, uint64_t, uint32_t, uint32_t> View() const {
    handle_.Get();
    return {view_.addr, view_.bytes, std::bit_cast<uint32_t>(mlx5::ToBe32(view_.lkey)),
            std::bit_cast<uint32_t>(mlx5::ToBe32(view_.rkey))};
  }
  const char* Method() const { return host::ToString(handle_.Get()->region.method()); }

  void Flush(bool to_nic, const py::object& timeout, uint64_t stream) const {
    const auto region = handle_.Get();
    const py::object memory_stays = owner_;
    const host::Deadline deadline = DeadlineOf(timeout);
    WithoutGil([&] {
      const host::WaitCheck check(CheckSignals);
      host::WrapPointer(reinterpret_cast<void*>(view_.addr), view_.bytes)
          ->Flush(to_nic ? host::FlushDirection::kGpuToNic : host::FlushDirection::kNicToGpu, deadline,
                  reinterpret_cast<void*>(stream));
    });
  }

  py::handle owner() const { return owner_; }
  bool closed() const { return handle_.closed(); }
  void Close() {
    handle_.Close();
    owner_ = py::none();
  }

 private:
  static std::string Name(uint64_t address, uint64_t bytes) {
    char text[64];
    std::snprintf(text, sizeof text, "the region of %llu bytes at 0x%llx",
                  static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address));
    return text;
  }

  static std::unique_ptr<const RegionObject> Register(const Device& device, uint64_t address, uint64_t bytes,
                                                      const py::dict& rights) {
    host::Access access;
    Take(rights, "local_write", access.local_write);
    Take(rights, "remote_read", access.remote_read);
    Take(rights, "remote_write", access.remote_write);
    Take(rights, "remote_atomic", access.remote_atomic);
    Take(rights, "relaxed_ordering", access.relaxed_ordering);
    Take(rights, "over_pcie", access.over_pcie);
    auto nic = device.Get();
    return WithoutGil([&] {
      host::MemoryRegion region(*nic, reinterpret_cast<void*>(address), bytes, access);
      return std::make_unique<const RegionObject>(RegionObject{std::move(nic), std::move(region)});
    });
  }

  py::object owner_;  // first: memory outlives its registration
  Handle<const RegionObject> handle_;
  host::MemoryView view_;
};

}  // namespace

void BindMemory(py::module_& module) {
  module.def("read_dlpack", ReadDlpack);
  module.def("address_of", AddressOf);

  py::class_<Region> region(module, "Region", CollectOwner<Region>());
  region.def(py::init<const Device&, uint64_t, uint64_t, py::object, const py::dict&>())
      .def_property_readonly("view", &Region::View)
      .def_property_readonly("method", &Region::Method, Doc("Region.method"))
      .def("_flush", &Region::Flush);
  BindClose(region);
}

}  // namespace warpverbs::python
