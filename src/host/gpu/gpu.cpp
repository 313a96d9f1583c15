#include "warpverbs/host/gpu.hpp"

#include <cerrno>

#include "connect/deadline_wait.hpp"
#include "gpu/cuda_context.hpp"
#include "log/log.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr char kLookForFault[] = "Check for an earlier kernel fault: it breaks the whole context";
constexpr char kLookAtSmi[] = "Check the GPU's health with nvidia-smi and dmesg";

/// A CUDA event in a stream of a GPU.
class StreamEvent {
 public:
  /// @pre  its context is current
  StreamEvent(const CudaDriver& driver, const std::string& gpu) : driver_(driver) {
    driver_.Check(driver_.EventCreate(&event_, kCudaEventWithoutTime), "make an event on", gpu, kLookAtSmi);
  }
  ~StreamEvent() { driver_.EventDestroy(event_); }  // does not wait for pending work
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  CUevent_st* get() const { return event_; }

 private:
  const CudaDriver& driver_;
  CUevent_st* event_ = nullptr;
};

WritesOrdering OrderingOf(int value) {
  if (value >= kCudaOrderedForAll) return WritesOrdering::kAllDevices;
  return value >= kCudaOrderedForOwner ? WritesOrdering::kOwner : WritesOrdering::kNone;
}

}  // namespace

CudaContext::CudaContext(int ordinal) : driver_(CudaDriver::Load()), ordinal_(ordinal) {
  const int count = Gpu::Count();
  if (ordinal < 0 || ordinal >= count) {
    throw Error("use", name(), "this process sees " + std::to_string(count) + " GPU(s)",
                count == 0 ? "Check CUDA_VISIBLE_DEVICES and nvidia-smi"
                           : "Pass an index from 0, and check CUDA_VISIBLE_DEVICES");
  }
  driver_.Check(driver_.DeviceGet(&device_, ordinal), "use", name(), kLookAtSmi);
  char text[256] = {};
  driver_.Check(driver_.DeviceGetName(text, sizeof text, device_), "name", name(), kLookAtSmi);
  model_ = text;
  driver_.Check(driver_.DeviceGetPCIBusId(text, sizeof text, device_), "locate", name(), kLookAtSmi);
  pci_address_ = text;
  attributes_ = ReadAttributes();
  driver_.Check(driver_.DevicePrimaryCtxRetain(&context_, device_), "open", name(),
                "Check that the GPU has memory left and is not in exclusive use (nvidia-smi)");
  try {
    const Current current(*this);
    driver_.Check(driver_.StreamCreate(&stream_, kCudaNonBlockingStream), "make a stream on", name(),
                  kLookAtSmi);
  } catch (...) {
    driver_.DevicePrimaryCtxRelease(device_);
    throw;
  }
  Log(LogLevel::kInfo, [&] {
    return "opened " + name() + ", " + model_ + " at " + pci_address_ +
           (attributes_.dma_buf ? ": exports dma-bufs" : ": exports no dma-bufs");
  });
}

CudaContext::~CudaContext() {
  Quietly([this](const CudaDriver& driver) { driver.StreamDestroy(stream_); });
  driver_.DevicePrimaryCtxRelease(device_);
}

int CudaContext::Attribute(int attribute) const {
  int value = 0;
  // An older driver does not know newer attributes, and lacks the feature as well.
  return driver_.DeviceGetAttribute(&value, attribute, device_) == 0 ? value : 0;
}

GpuAttributes CudaContext::ReadAttributes() const {
  return {.integrated = Attribute(kCudaIntegrated) != 0,
          .dma_buf = Attribute(kCudaDmaBuf) != 0,
          .gpu_direct = Attribute(kCudaGpuDirect) != 0,
          .gpu_direct_vmm = Attribute(kCudaGpuDirectVmm) != 0,
          .host_flush = (Attribute(kCudaFlushOptions) & kCudaFlushByHost) != 0,
          .stream_flush = (Attribute(kCudaFlushOptions) & kCudaFlushByStream) != 0,
          .writes_ordering = OrderingOf(Attribute(kCudaWritesOrdering))};
}

CudaContext::Current::Current(const CudaContext& context) : driver_(context.driver_) {
  driver_.Check(driver_.CtxPushCurrent(context.context_), "enter the context of", context.name(), kLookAtSmi);
}

void CudaContext::Map(std::span<std::byte> memory, unsigned flags) const {
  const Current current(*this);
  driver_.Check(driver_.MemHostRegister(memory.data(), memory.size(), kCudaPortable | kCudaDeviceMap | flags),
                "map", std::to_string(memory.size()) + " bytes of host memory for " + name(),
                "Pass whole pages that are not mapped yet, and check the limit on locked memory (ulimit -l)");
  Log(LogLevel::kTrace,
      [&] { return "mapped " + std::to_string(memory.size()) + " bytes of host memory for " + name(); });
}

CudaAddress CudaContext::DeviceAddressOf(std::byte* memory) const {
  const Current current(*this);
  CudaAddress seen = 0;
  driver_.Check(driver_.MemHostGetDevicePointer(&seen, memory, 0), "find mapped memory on", name(),
                kLookAtSmi);
  return seen;
}

void CudaContext::Unmap(std::byte* memory) const {
  Quietly([memory](const CudaDriver& driver) { driver.MemHostUnregister(memory); });
}

void CudaContext::CopyIn(CudaAddress to, std::span<const std::byte> from) const {
  Run("write", from.size(), [&](const CudaDriver& driver, CUstream_st* stream) {
    return driver.MemcpyHtoDAsync(to, from.data(), from.size(), stream);
  });
}

void CudaContext::CopyOut(CudaAddress from, std::span<std::byte> to) const {
  Run("read", to.size(), [&](const CudaDriver& driver, CUstream_st* stream) {
    return driver.MemcpyDtoHAsync(to.data(), from, to.size(), stream);
  });
}

void CudaContext::Copy(CudaAddress from, const CudaContext& to_gpu, CudaAddress to, size_t bytes) const {
  Run("copy", bytes, [&](const CudaDriver& driver, CUstream_st* stream) {
    // The driver gets both contexts and thus needs no peer access. Without peer access it copies through the
    // host.
    return context_ == to_gpu.context_
               ? driver.MemcpyDtoDAsync(to, from, bytes, stream)
               : driver.MemcpyPeerAsync(to, to_gpu.context_, from, context_, bytes, stream);
  });
}

void CudaContext::Fill(CudaAddress at, size_t bytes, std::byte value) const {
  Run("fill", bytes, [&](const CudaDriver& driver, CUstream_st* stream) {
    return driver.MemsetD8Async(at, std::to_integer<unsigned char>(value), bytes, stream);
  });
}

void CudaContext::Finish(CUstream_st* stream, Deadline deadline) const {
  const DeadlineWait waiting(deadline);
  const std::string object = "the work of " + name();
  const Current current(*this);
  const StreamEvent event(driver_, name());
  if (stream != nullptr) {
    driver_.Check(driver_.EventRecord(event.get(), stream), "finish", object, kLookForFault);
  } else {
    RecordAll(event.get(), object);
  }
  int result = 0;
  const bool ends =
      waiting.Until([&] { return (result = driver_.EventQuery(event.get())) != kCudaNotReady; });
  if (!ends) {
    throw Error("finish", object, "it did not finish " + waiting.Within(),
                "Give the kernels their own deadline, or pass a longer one", ETIMEDOUT);
  }
  driver_.Check(result, "finish", object, kLookForFault);
}

/// Records all streams of the context. An event in the legacy stream would not wait for non-blocking streams,
/// such as those of frameworks.
void CudaContext::RecordAll(CUevent_st* event, const std::string& object) const {
  constexpr int kFirst = 12050;
  int version = 0;
  driver_.Check(driver_.DriverGetVersion(&version), "finish", object, kLookAtSmi);
  if (version < kFirst || driver_.CtxRecordEvent == nullptr) {
    throw Error("finish", object, "a driver before CUDA 12.5 cannot wait for all streams",
                "Pass the stream (cudaStreamLegacy is the default one), or use NVIDIA's driver 555 or later",
                EOPNOTSUPP);
  }
  driver_.Check(driver_.CtxRecordEvent(context_, event), "finish", object,
                "End the capture of streams, and check for an earlier kernel fault");
}

void CudaContext::FlushNicWrites(CUstream_st* stream, Deadline deadline) const {
  if (attributes_.writes_ordering != WritesOrdering::kNone) return;  // kernels see the writes in order
  const std::string object = "NIC writes to memory of " + name();
  const Current current(*this);
  if (attributes_.stream_flush && (stream != nullptr || !attributes_.host_flush)) {
    CudaMemoryOperation flush;
    CUstream_st* const by = stream != nullptr ? stream : stream_;
    driver_.Check(driver_.StreamBatchMemOp(by, 1, &flush, 0), "flush", object, kLookForFault);
    if (stream == nullptr) Finish(by, deadline);
  } else if (attributes_.host_flush) {
    driver_.Check(driver_.FlushGPUDirectRDMAWrites(kCudaFlushCurrentContext, kCudaFlushToOwner), "flush",
                  object, kLookForFault);
  } else {
    throw Error("flush", object, "the GPU neither orders such writes nor flushes them",
                "Let the NIC write to host memory, or use a driver that flushes", EOPNOTSUPP);
  }
}

void CudaContext::FailRun(int result, const char* step, size_t bytes) const {
  throw Error(step, std::to_string(bytes) + " bytes of memory of " + name(), driver_.Describe(result),
              kLookForFault);
}

int Gpu::Count() {
  try {
    const CudaDriver& driver = CudaDriver::Load();
    int count = 0;
    return driver.DeviceGetCount(&count) == 0 ? count : 0;
  } catch (const Error&) {  // no driver, no GPU
    return 0;
  }
}

Gpu::Gpu(int ordinal) : context_(std::make_shared<CudaContext>(ordinal)) {}

int Gpu::ordinal() const { return context_->ordinal(); }
std::string Gpu::name() const { return context_->name(); }
const std::string& Gpu::model() const { return context_->model(); }
const std::string& Gpu::pci_address() const { return context_->pci_address(); }
const GpuAttributes& Gpu::attributes() const { return context_->attributes(); }

const char* ToString(WritesOrdering ordering) {
  switch (ordering) {
    case WritesOrdering::kNone:
      return "for no kernels";
    case WritesOrdering::kOwner:
      return "for its own kernels";
    case WritesOrdering::kAllDevices:
      return "for kernels of all GPUs";
  }
  return "unknown";
}

}  // namespace warpverbs::inline v0_2::host
