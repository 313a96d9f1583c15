#include "warpverbs/host/hip.hpp"

#include <cerrno>
#include <utility>

#include "buffer/views.hpp"
#include "connect/deadline_wait.hpp"
#include "gpu/hip_runtime.hpp"
#include "log/log.hpp"
#include "memory/page_range.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

/// An existing GPU of AMD.
class HipDevice {
 public:
  explicit HipDevice(int ordinal) : runtime_(HipRuntime::Load()), ordinal_(ordinal) {
    const int count = HipGpu::Count();
    if (ordinal < 0 || ordinal >= count) {
      throw Error("use", name(), "this process sees " + std::to_string(count) + " AMD GPU(s)",
                  "Pass an index from 0, and check HIP_VISIBLE_DEVICES and rocm-smi");
    }
    char text[64] = {};
    runtime_.Check(runtime_.DeviceGetPCIBusId(text, sizeof text, ordinal), "locate", name(), kCheckHealth);
    pci_address_ = text;
    Log(LogLevel::kInfo, [&] { return "opened " + name() + " at " + pci_address_; });
  }

  static constexpr char kCheckHealth[] = "Check the GPU's health with rocm-smi and dmesg";

  const HipRuntime& runtime() const { return runtime_; }
  int ordinal() const { return ordinal_; }
  std::string name() const { return "hip:" + std::to_string(ordinal_); }
  const std::string& pci_address() const { return pci_address_; }

  /// Runs `work` with the GPU current.
  ///
  /// @errors  Error: cannot <step> <bytes> bytes of memory of this GPU
  template <class Work>
  void Run(const char* step, size_t bytes, const char* remedy, const Work& work) const {
    const HipRuntime::Current current(runtime_, ordinal_, name());
    const std::string object = std::to_string(bytes) + " bytes of memory of " + name();  // may throw: first
    runtime_.Check(work(runtime_), step, object, remedy);
  }

  /// Sleeps until the work launched on a stream so far has finished. nullptr is the null stream, which also
  /// waits for the blocking streams.
  ///
  /// @param bytes  size of the memory, for the error
  /// @errors  Error: the deadline passed, or the runtime failed
  /// @source  ROCm/HIP 6.4, hipEventRecord(), hipEventQuery(), hipEventReleaseToSystem
  void Finish(size_t bytes, void* stream, Deadline deadline) const {
    const DeadlineWait waiting(deadline);
    Run("flush", bytes, kCheckHealth, [&](const HipRuntime& runtime) {
      void* event = nullptr;
      int result = runtime.EventCreate(&event, HipRuntime::kEventWithoutTime | HipRuntime::kEventToSystem);
      if (result != 0) return result;
      const std::unique_ptr<void, int (*)(void*)> made(event, runtime.EventDestroy);
      result = runtime.EventRecord(event, stream);
      if (result != 0) return result;
      const bool had_failed = runtime.PeekAtLastError() != 0;
      const bool ends =
          waiting.Until([&] { return (result = runtime.EventQuery(event)) != HipRuntime::kNotReady; });
      if (!had_failed) runtime.GetLastError();  // hides our hipErrorNotReady from the program
      if (!ends) {
        throw Error("flush", std::to_string(bytes) + " bytes of memory of " + name(),
                    "its work did not finish " + waiting.Within(),
                    "Give the kernels their own deadline, or pass a longer one", ETIMEDOUT);
      }
      return result;
    });
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

/// A zeroed allocation.
class HipAllocation {
 public:
  HipAllocation(const HipGpu& gpu, size_t bytes, HipCaching caching) : device_(gpu.device()), bytes_(bytes) {
    device_->Run(
        "allocate", bytes, "Free some of the GPU's memory (rocm-smi shows which processes hold it)",
        [&](const HipRuntime& runtime) { return runtime.Malloc(&memory_, bytes, FlagsOf(caching)); });
    try {
      device_->Run("clear", bytes, HipDevice::kCheckHealth, [&](const HipRuntime& runtime) {
        const int result = runtime.Memset(memory_, 0, bytes);
        return result != 0 ? result : runtime.StreamSynchronize(nullptr);  // hipMemset may return earlier
      });
    } catch (...) {  // host memory may run out, too
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

  const std::shared_ptr<const HipDevice>& device() const { return device_; }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  size_t size() const { return bytes_; }

 private:
  std::shared_ptr<const HipDevice> device_;
  size_t bytes_;
  void* memory_ = nullptr;
};

/// GPU memory that any code has allocated.
class HipView : public Buffer {
 public:
  HipView(std::shared_ptr<const HipDevice> device, std::byte* data, size_t size)
      : Buffer(data, size), device_(std::move(device)) {}

  std::string name() const override { return "memory of " + device_->name(); }
  DmaBuf Export() const override { return device_->runtime().Export(data(), size(), device_->name()); }

 protected:
  void DoCopyIn(size_t offset, std::span<const std::byte> from) const override {
    Copy("write", data() + offset, from.data(), from.size(), HipRuntime::kHostToDevice);
  }
  void DoCopyOut(size_t offset, std::span<std::byte> to) const override {
    Copy("read", to.data(), data() + offset, to.size(), HipRuntime::kDeviceToHost);
  }
  bool DoCopyTo(size_t offset, const Buffer& to, size_t to_offset, size_t bytes) const override {
    if (dynamic_cast<const HipView*>(&to) == nullptr) return false;
    // The source's GPU is current: the runtime reaches the other GPU by itself.
    device_->Run("copy", bytes, HipDevice::kCheckHealth, [&](const HipRuntime& runtime) {
      const int result =
          runtime.Memcpy(to.data() + to_offset, data() + offset, bytes, HipRuntime::kDeviceToDevice);
      return result != 0 ? result : runtime.StreamSynchronize(nullptr);  // the copy may return earlier
    });
    return true;
  }
  /// Kernels see what NICs wrote without a call, as HipCaching describes.
  void DoFlush(FlushDirection direction, Deadline deadline, void* stream) const override {
    if (direction == FlushDirection::kGpuToNic) device_->Finish(size(), stream, deadline);
  }

 private:
  void Copy(const char* step, void* to, const void* from, size_t bytes, int kind) const {
    device_->Run(step, bytes, HipDevice::kCheckHealth,
                 [&](const HipRuntime& runtime) { return runtime.Memcpy(to, from, bytes, kind); });
  }

  std::shared_ptr<const HipDevice> device_;
};

/// Host memory that kernels reach, too.
class HipPinnedView final : public HostView {
 public:
  HipPinnedView(std::shared_ptr<const HipDevice> device, std::byte* data, size_t size)
      : HostView(data, size), device_(std::move(device)) {}

  std::string name() const override { return "pinned host memory"; }

 protected:
  void DoFlush(FlushDirection direction, Deadline deadline, void* stream) const override {
    if (direction == FlushDirection::kGpuToNic) device_->Finish(size(), stream, deadline);
    HostView::DoFlush(direction, deadline, stream);
  }

 private:
  std::shared_ptr<const HipDevice> device_;
};

class HipBuffer final : public HipView {
 public:
  explicit HipBuffer(HipAllocation allocation)
      : HipView(allocation.device(), allocation.data(), allocation.size()),
        allocation_(std::move(allocation)) {}

 private:
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

std::unique_ptr<Buffer> WrapHip(const HipGpu& gpu, std::byte* data, size_t size) {
  return std::make_unique<HipView>(gpu.device(), data, size);
}

std::unique_ptr<Buffer> WrapHipPinned(const HipGpu& gpu, std::byte* data, size_t size) {
  return std::make_unique<HipPinnedView>(gpu.device(), data, size);
}

std::unique_ptr<Buffer> HipMemoryKind::Allocate(size_t bytes) const {
  if (bytes == 0) {
    throw Error("allocate", "0 bytes of " + name(), "an allocation cannot be empty",
                "Ask for 1 byte or more");
  }
  constexpr uint64_t kPage = 65536;  // exports are whole host pages; a multiple of every page size
  const size_t whole = PageRange::Around(0, bytes, kPage).bytes;
  if (whole < bytes) {
    throw Error("allocate", std::to_string(bytes) + " bytes of " + name(), "no GPU has that much memory",
                "Ask for less");
  }
  return std::make_unique<HipBuffer>(HipAllocation(gpu_, whole, caching_));
}

}  // namespace warpverbs::inline v0_2::host
