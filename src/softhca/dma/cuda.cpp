#include "dma/cuda.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "dma/cuda_driver.hpp"
#include "sync/mutex.hpp"

namespace softhca::cuda {
namespace {

/// Up to this size, writes are copied to pinned memory first, so that they need not wait for the GPU.
constexpr size_t kStagedBytes = 64 << 10;
constexpr size_t kStageBytes = 1 << 20;
constexpr size_t kStageStep = 64;

class Gpu;

/// The total order of all requests, across the streams of all GPUs.
struct Order {
  Gpu* latest = nullptr;    ///< GPU of the latest request; its stream waits for the others
  bool busy = false;        ///< requests may be in flight
  uint64_t idle_count = 0;  ///< number of times that none was in flight
};
Order g_order;

Address AddressOf(const uint8_t* memory) { return reinterpret_cast<Address>(memory); }

template <class T>
std::optional<T> Ask(const Driver& driver, PointerAttribute attribute, Address address) {
  T value{};
  const Result result = driver.pointer_get_attribute(&value, attribute, address);
  return result == kSuccess ? std::optional(value) : std::nullopt;
}

/// Makes a context current for its own lifetime, and restores the program's afterwards. Relaxes the capture
/// mode, because the program may be capturing a stream.
class Current {
 public:
  Current(const Driver& driver, Context context) : driver_(driver) {
    driver.exchange_capture_mode(&capture_mode_);
    pushed_ = driver.context_push(context) == kSuccess;
  }
  ~Current() {
    Context context;
    if (pushed_) driver_.context_pop(&context);
    driver_.exchange_capture_mode(&capture_mode_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  explicit operator bool() const { return pushed_; }

 private:
  const Driver& driver_;
  int capture_mode_ = kCaptureRelaxed;
  bool pushed_;
};

/// The memory of a GPU. All work goes to its own stream, which does not wait for the program's streams.
class Gpu final : public DeviceMemory {
 public:
  Gpu(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  ~Gpu() override;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Allocates everything that the other calls need: a later allocation could wait for kernels.
  bool Open();

  bool Read(uint8_t* to, const uint8_t* from, size_t bytes) override;
  bool Write(uint8_t* to, const uint8_t* from, size_t bytes) override;
  bool CopyToHost(uint8_t* to, const uint8_t* from, size_t bytes) override;
  bool CopyToDevice(DeviceMemory& target, uint8_t* to, const uint8_t* from, size_t bytes) override;
  bool Synchronize() override;

 private:
  bool IsReady(const Current& current);
  bool Mark();
  bool CopyIn(uint8_t* to, const uint8_t* from, size_t bytes);
  bool WriteWord(Address to, const uint8_t* from, size_t bytes);
  bool HasStage() const;
  uint8_t* Stage(size_t bytes);

  const Driver& driver_;
  const int ordinal_;
  Device device_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Event mark_ = nullptr;
  void* stage_ = nullptr;      ///< pinned memory that transfers go through
  size_t staged_ = 0;          ///< bytes of `stage_` in use
  uint64_t staged_after_ = 0;  ///< Order::idle_count when they were taken
};

bool Gpu::Open() {
  if (driver_.device_get(&device_, ordinal_) != kSuccess) return false;
  if (driver_.context_retain(&context_, device_) != kSuccess) {
    context_ = nullptr;
    return false;
  }
  const Current current(driver_, context_);
  return current && driver_.stream_create(&stream_, kStreamNonBlocking) == kSuccess &&
         driver_.event_create(&mark_, kEventWithoutTiming) == kSuccess &&
         driver_.host_alloc(&stage_, kStageBytes, kHostMemoryPortable) == kSuccess;
}

Gpu::~Gpu() {
  if (context_ == nullptr) return;
  if (stage_ != nullptr && g_order.latest == this) g_order.latest = nullptr;
  if (const Current current(driver_, context_); current) {
    if (stream_ != nullptr) driver_.stream_synchronize(stream_);  // an earlier wait may have failed
    if (stage_ != nullptr) driver_.host_free(stage_);
    if (mark_ != nullptr) driver_.event_destroy(mark_);
    if (stream_ != nullptr) driver_.stream_destroy(stream_);
  }
  driver_.context_release(device_);
}

bool Gpu::Read(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t part = 0; bytes != 0; bytes -= part, to += part, from += part) {
    part = std::min(bytes, kStageBytes);
    uint8_t* const stage = Stage(part);
    if (stage == nullptr || !CopyToHost(stage, from, part) || !Synchronize()) return false;
    std::memcpy(to, stage, part);
  }
  return true;
}

bool Gpu::Write(uint8_t* to, const uint8_t* from, size_t bytes) {
  if ((bytes == 4 || bytes == 8) && AddressOf(to) % bytes == 0) return WriteWord(AddressOf(to), from, bytes);
  if (bytes > kStagedBytes) return CopyIn(to, from, bytes) && Synchronize();
  uint8_t* const stage = Stage(bytes);
  if (stage == nullptr) return false;
  std::memcpy(stage, from, bytes);
  return CopyIn(to, stage, bytes);
}

bool Gpu::CopyToHost(uint8_t* to, const uint8_t* from, size_t bytes) {
  const Current current(driver_, context_);
  return IsReady(current) && driver_.copy_to_host(to, AddressOf(from), bytes, stream_) == kSuccess;
}

/// Copies by way of processor memory. A copy within a GPU may be a kernel, which would never run if the
/// program's kernels occupied the whole GPU while they wait for this copy.
bool Gpu::CopyToDevice(DeviceMemory& target, uint8_t* to, const uint8_t* from, size_t bytes) {
  auto& other = static_cast<Gpu&>(target);  // all devices belong to the one driver
  for (size_t part = 0; bytes != 0; bytes -= part, to += part, from += part) {
    part = std::min(bytes, kStagedBytes);
    uint8_t* const stage = other.Stage(part);
    if (stage == nullptr || !CopyToHost(stage, from, part) || !other.CopyIn(to, stage, part)) return false;
  }
  return true;
}

/// @pre  `from` does not change until the copy is done
bool Gpu::CopyIn(uint8_t* to, const uint8_t* from, size_t bytes) {
  const Current current(driver_, context_);
  return IsReady(current) && driver_.copy_to_device(AddressOf(to), from, bytes, stream_) == kSuccess;
}

bool Gpu::Synchronize() {
  if (!std::exchange(g_order.busy, false)) return true;
  ++g_order.idle_count;
  const Gpu& latest = *g_order.latest;
  const Current current(driver_, latest.context_);
  return current && driver_.stream_synchronize(latest.stream_) == kSuccess;
}

/// Makes this stream wait for the requests on other streams, so that the next request comes after them.
bool Gpu::IsReady(const Current& current) {
  if (!current) return false;
  Gpu* const before = g_order.latest;
  if (before != this && g_order.busy) {
    if (!before->Mark() || driver_.stream_wait_event(stream_, before->mark_, 0) != kSuccess) return false;
  }
  g_order.latest = this;
  g_order.busy = true;
  return true;
}

bool Gpu::Mark() {
  const Current current(driver_, context_);
  return current && driver_.event_record(mark_, stream_) == kSuccess;
}

/// By the driver's default, the word becomes visible after everything its stream did before.
bool Gpu::WriteWord(Address to, const uint8_t* from, size_t bytes) {
  const Current current(driver_, context_);
  if (!IsReady(current)) return false;
  uint32_t half = 0;
  uint64_t whole = 0;
  std::memcpy(bytes == 4 ? static_cast<void*>(&half) : &whole, from, bytes);
  return (bytes == 4 ? driver_.write_word_32(stream_, to, half, 0)
                     : driver_.write_word_64(stream_, to, whole, 0)) == kSuccess;
}

/// Returns whether the pinned memory still exists: a program that resets the GPU frees it.
bool Gpu::HasStage() const {
  const Current current(driver_, context_);
  return current && Ask<unsigned>(driver_, kMemoryType, reinterpret_cast<Address>(stage_)) == kMemoryTypeHost;
}

/// Returns free space in the pinned memory.
///
/// @pre     bytes <= kStageBytes
/// @return  null if the pinned memory is gone, or waiting for its current users failed
uint8_t* Gpu::Stage(size_t bytes) {
  if (!HasStage()) return nullptr;
  const size_t room = (bytes + kStageStep - 1) / kStageStep * kStageStep;
  if (staged_after_ != g_order.idle_count) staged_ = 0;
  if (staged_ + room > kStageBytes) {
    if (!Synchronize()) return nullptr;
    staged_ = 0;
  }
  staged_after_ = g_order.idle_count;
  uint8_t* const at = static_cast<uint8_t*>(stage_) + staged_;
  staged_ += room;
  return at;
}

/// Number of the GPU that owns the memory at an address, and the end of its allocation or mapping.
struct Place {
  int ordinal;
  Address end;
};

std::optional<Place> Find(const Driver& driver, Address address) {
  if (Ask<unsigned>(driver, kMemoryType, address) != kMemoryTypeDevice) return std::nullopt;
  const auto ordinal = Ask<int>(driver, kDeviceOrdinal, address);
  const auto start = Ask<Address>(driver, kRangeStart, address);
  const auto bytes = Ask<size_t>(driver, kRangeSize, address);
  if (!ordinal || !start || !bytes || *start + *bytes <= address) return std::nullopt;
  return Place{*ordinal, *start + *bytes};
}

}  // namespace

std::shared_ptr<DeviceMemory> GpuOf(uint64_t start, uint64_t bytes) {
  const Driver* const driver = Driver::Loaded();
  if (driver == nullptr) return nullptr;
  const std::optional<Place> first = Find(*driver, start);
  for (std::optional<Place> place = first; place && place->end < start + bytes;) {
    place = Find(*driver, place->end);
    if (!place || place->ordinal != first->ordinal) return nullptr;
  }
  if (!first) return nullptr;

  static warpverbs::sync::Mutex mutex;
  static auto& gpus =
      *new std::map<int, std::weak_ptr<Gpu>>;  // never destroyed: the engine runs until the process ends
  const warpverbs::sync::LockGuard lock(mutex);
  std::weak_ptr<Gpu>& known = gpus[first->ordinal];
  std::shared_ptr<Gpu> gpu = known.lock();
  if (gpu != nullptr) return gpu;
  gpu = std::make_shared<Gpu>(*driver, first->ordinal);
  if (!gpu->Open()) return nullptr;
  known = gpu;
  return gpu;
}

}  // namespace softhca::cuda
