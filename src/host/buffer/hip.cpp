#include "warpverbs/host/hip.hpp"

#include <utility>

#include "../hip_runtime.hpp"
#include "../memory/page_range.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

/// A GPU that is there.
class HipDevice {
 public:
  explicit HipDevice(int ordinal) : runtime_(HipRuntime::Load()), ordinal_(ordinal) {
    const int count = HipGpu::Count();
    if (ordinal < 0 || ordinal >= count) {
      throw Error("use", name(), "this process sees " + std::to_string(count) + " GPU(s) of AMD",
                  "Count from 0, and look at HIP_VISIBLE_DEVICES and rocm-smi");
    }
    char text[64] = {};
    runtime_.Check(runtime_.DeviceGetPCIBusId(text, sizeof text, ordinal), "locate", name(), kCheckHealth);
    pci_address_ = text;
  }

  static constexpr char kCheckHealth[] = "Check the GPU's health with rocm-smi and dmesg";

  const HipRuntime& runtime() const { return runtime_; }
  int ordinal() const { return ordinal_; }
  std::string name() const { return "hip:" + std::to_string(ordinal_); }
  const std::string& pci_address() const { return pci_address_; }

  /// Does something on the GPU, which answers a hipError_t.
  ///
  /// @errors  Error: cannot <step> <bytes> bytes of memory of this GPU
  template <class Work>
  void Run(const char* step, size_t bytes, const char* remedy, const Work& work) const {
    const HipRuntime::Current current(runtime_, ordinal_, name());
    runtime_.Check(work(runtime_), step, std::to_string(bytes) + " bytes of memory of " + name(), remedy);
  }

 private:
  const HipRuntime& runtime_;
  int ordinal_;
  std::string pci_address_;
};

namespace {

unsigned FlagsOf(HipCaching caching) {
  switch (caching) {
    case HipCaching::kUncached:
      return HipRuntime::kUncached;
    case HipCaching::kFineGrained:
      return HipRuntime::kFineGrained;
    case HipCaching::kCached:
      break;
  }
  return HipRuntime::kCached;
}

/// An allocation, zeroed.
class HipAllocation {
 public:
  HipAllocation(const HipGpu& gpu, size_t bytes, HipCaching caching) : device_(gpu.device()), bytes_(bytes) {
    device_->Run(
        "allocate", bytes, "Free some of the GPU's memory (rocm-smi shows who holds it)",
        [&](const HipRuntime& runtime) { return runtime.Malloc(&memory_, bytes, FlagsOf(caching)); });
    try {
      device_->Run("clear", bytes, HipDevice::kCheckHealth, [&](const HipRuntime& runtime) {
        const int result = runtime.Memset(memory_, 0, bytes);
        return result != 0 ? result : runtime.StreamSynchronize(nullptr);  // it may return before it is done
      });
    } catch (const Error&) {
      device_->runtime().Free(memory_);
      throw;
    }
  }
  HipAllocation(HipAllocation&& other) noexcept
      : device_(std::move(other.device_)),
        bytes_(other.bytes_),
        memory_(std::exchange(other.memory_, nullptr)) {}
  ~HipAllocation() {
    if (memory_ != nullptr) device_->runtime().Free(memory_);
  }

  const HipDevice& device() const { return *device_; }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  size_t size() const { return bytes_; }

  /// The file is of more than the allocation where the runtime has cut that from a larger one.
  ///
  /// @source  ROCm/ROCR-Runtime 6.4, core/runtime/runtime.cpp, Runtime::DmaBufExport()
  DmaBuf Export() const {
    int fd = -1;
    uint64_t offset = 0;
    const int status = device_->runtime().ExportDmaBuf(memory_, bytes_, &fd, &offset);
    if (status != 0) {
      throw Error(
          "export", std::to_string(bytes_) + " bytes of memory of " + device_->name(),
          device_->runtime().StatusWords(status),
          "Use Linux 5.12 or later with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY, and the driver "
          "amdgpu");
    }
    return {FileDescriptor(fd), reinterpret_cast<uint64_t>(memory_) - offset, offset + bytes_};
  }

 private:
  std::shared_ptr<const HipDevice> device_;
  size_t bytes_;
  void* memory_ = nullptr;
};

class HipBuffer final : public Buffer {
 public:
  explicit HipBuffer(HipAllocation allocation)
      : Buffer(allocation.data(), allocation.size()), allocation_(std::move(allocation)) {}

  std::string name() const override { return "memory of " + allocation_.device().name(); }
  DmaBuf Export() const override { return allocation_.Export(); }
  MemoryRegion Register(const Device& device, const Access& access) const override {
    return {device, Export(), data(), size(), access};
  }

 protected:
  void DoCopyIn(size_t offset, std::span<const std::byte> from) const override {
    Copy("write", data() + offset, from.data(), from.size(), HipRuntime::kHostToDevice);
  }
  void DoCopyOut(size_t offset, std::span<std::byte> to) const override {
    Copy("read", to.data(), data() + offset, to.size(), HipRuntime::kDeviceToHost);
  }

 private:
  void Copy(const char* step, void* to, const void* from, size_t bytes, int kind) const {
    allocation_.device().Run(step, bytes, HipDevice::kCheckHealth, [&](const HipRuntime& runtime) {
      return runtime.Memcpy(to, from, bytes, kind);
    });
  }

  HipAllocation allocation_;
};

}  // namespace

int HipGpu::Count() try {
  int count = 0;
  return HipRuntime::Load().GetDeviceCount(&count) == 0 ? count : 0;
} catch (const Error&) {
  return 0;
}

HipGpu::HipGpu(int ordinal) : device_(std::make_shared<HipDevice>(ordinal)) {}

int HipGpu::ordinal() const { return device_->ordinal(); }
std::string HipGpu::name() const { return device_->name(); }
const std::string& HipGpu::pci_address() const { return device_->pci_address(); }

std::unique_ptr<Buffer> HipMemoryKind::Allocate(size_t bytes) const {
  if (bytes == 0) {
    throw Error("allocate", "0 bytes of " + name(), "there is no empty page", "Ask for 1 byte or more");
  }
  constexpr uint64_t kPage = 65536;  // exports are whole pages of the host, whatever it is
  const size_t whole = PageRange::Around(0, bytes, kPage).bytes;
  return std::make_unique<HipBuffer>(HipAllocation(gpu_, whole, caching_));
}

}  // namespace warpverbs::host
