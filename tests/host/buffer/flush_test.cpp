#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <latch>
#include <vector>

#include "fake_cuda.hpp"
#include "host/buffer/buffer_traffic.hpp"
#include "host/gpu/driver_memory.hpp"
#include "host/gpu/gpu_failures.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/buffer_pool.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/gpu.hpp"

struct CUstream_st;
extern "C" {
int cuStreamCreate(CUstream_st** stream, unsigned flags);
int cuStreamDestroy_v2(CUstream_st* stream);
int cuStreamSynchronize(CUstream_st* stream);
int cuLaunchHostFunc(CUstream_st* stream, void (*work)(void*), void* data);
int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, CUstream_st* stream);
}

/// Driver calls that make a GPU and a NIC see each other's writes.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

constexpr size_t kBytes = 4096;
constexpr auto kToNic = FlushDirection::kGpuToNic;
constexpr auto kToGpu = FlushDirection::kNicToGpu;

Deadline Soon() { return DeadlineIn(std::chrono::seconds(10)); }

/// A stream of the program itself.
class ProgramStream {
 public:
  ProgramStream() { EXPECT_EQ(cuStreamCreate(&stream_, 1), 0); }
  ~ProgramStream() { cuStreamDestroy_v2(stream_); }
  ProgramStream(const ProgramStream&) = delete;
  ProgramStream& operator=(const ProgramStream&) = delete;

  CUstream_st* get() const { return stream_; }

  /// Launches work that writes to a buffer.
  void Fill(const Buffer& buffer, unsigned char value) const {
    EXPECT_EQ(cuMemsetD8Async(reinterpret_cast<uint64_t>(buffer.data()), value, kBytes, stream_), 0);
  }

 private:
  CUstream_st* stream_ = nullptr;
};

/// Stream work that ends only when this object is destroyed.
class EndlessWork {
 public:
  explicit EndlessWork(const ProgramStream& stream) : stream_(stream.get()) {
    const auto wait = [](void* end) { static_cast<std::latch*>(end)->wait(); };
    EXPECT_EQ(cuLaunchHostFunc(stream.get(), wait, &end_), 0);
  }
  ~EndlessWork() { End(); }
  EndlessWork(const EndlessWork&) = delete;
  EndlessWork& operator=(const EndlessWork&) = delete;

  void End() {
    if (!end_.try_wait()) end_.count_down();
    EXPECT_EQ(cuStreamSynchronize(stream_), 0) << "nothing reads the latch any more";
  }

 private:
  CUstream_st* stream_;
  std::latch end_{1};
};

class Flush : public testing::Test {
 protected:
  ~Flush() override { EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked"; }

  /// Returns the number of driver calls that flush or wait.
  static int Fences() {
    return HostFlushes() + fake_cuda::Calls("cuStreamBatchMemOp_v2") + fake_cuda::Calls("cuCtxRecordEvent") +
           fake_cuda::Calls("cuEventRecord");
  }
  static int HostFlushes() { return fake_cuda::Calls("cuFlushGPUDirectRDMAWrites"); }

  static Error WhyNot(const Buffer& buffer, FlushDirection direction, Deadline deadline = Soon(),
                      void* stream = nullptr) {
    try {
      buffer.Flush(direction, deadline, stream);
    } catch (const Error& error) {
      return error;
    }
    return {"", "", "it was flushed", ""};
  }

  Device device_;
};

TEST_F(Flush, WaitsOnlyForTheStreamTowardsTheNic) {
  fake_cuda::Configure("delay_us=2000");
  const Gpu gpu;
  const auto buffer = CudaMemoryKind(gpu).Allocate(kBytes);
  const auto target = HostMemoryKind().Allocate(kBytes);
  const DriverContext context;
  const ProgramStream stream;
  for (unsigned char round = 1; round <= 20; ++round) {
    stream.Fill(*buffer, round);
    const int waits = fake_cuda::Calls("cuEventRecord");
    buffer->Flush(kToNic, Soon(), stream.get());
    EXPECT_EQ(fake_cuda::Calls("cuEventRecord"), waits + 1);
    ASSERT_TRUE(WriteBuffer(device_, *WrapPointer(buffer->data(), kBytes), *target));
    const std::vector<std::byte> arrived = Contents(*target);
    ASSERT_EQ(std::count(arrived.begin(), arrived.end(), std::byte{round}), kBytes) << "stale bytes";
  }
  EXPECT_EQ(fake_cuda::Calls("cuCtxRecordEvent"), 0) << "work of other streams may run forever";
}

TEST_F(Flush, WaitsForAllStreamsIfNoneIsPassed) {
  fake_cuda::Configure("delay_us=2000");
  const Gpu gpu;
  const auto cuda = CudaMemoryKind(gpu).Allocate(kBytes);
  const auto pinned = PinnedMemoryKind(gpu).Allocate(kBytes);
  const DriverContext context;
  const ProgramStream one, other;
  one.Fill(*cuda, 7);
  other.Fill(*cuda, 7);
  other.Fill(*cuda, 7);
  cuda->Flush(kToNic, Soon());
  EXPECT_EQ(fake_cuda::Calls("cuCtxRecordEvent"), 1);
  const std::byte* const bytes = fake_cuda::Reach(cuda->data(), kBytes);
  EXPECT_EQ(std::count(bytes, bytes + kBytes, std::byte{7}), kBytes);
  pinned->Flush(kToNic, Soon());
  EXPECT_EQ(fake_cuda::Calls("cuCtxRecordEvent"), 2) << "kernels write to pinned memory, too";
  pinned->Flush(kToNic, Soon(), one.get());
  WrapPointer(pinned->data(), 64)->Flush(kToNic, Soon(), one.get());
  EXPECT_EQ(fake_cuda::Calls("cuCtxRecordEvent"), 2);
}

TEST_F(Flush, GivesUpAtTheDeadline) {
  using std::chrono::milliseconds;
  fake_cuda::Configure("delay_us=1");
  const Gpu gpu;
  const std::unique_ptr<Buffer> buffers[] = {CudaMemoryKind(gpu).Allocate(kBytes),
                                             PinnedMemoryKind(gpu).Allocate(kBytes)};
  const DriverContext context;
  const ProgramStream stream, other;
  EndlessWork work(stream);
  for (const auto& buffer : buffers) {
    for (void* const by : {static_cast<void*>(stream.get()), static_cast<void*>(nullptr)}) {
      const Error why = WhyNot(*buffer, kToNic, DeadlineIn(milliseconds(50)), by);
      EXPECT_EQ(why.error_number(), ETIMEDOUT);
      EXPECT_THAT(why.what(), testing::MatchesRegex(
                                  "Cannot finish the work of cuda:0: it did not finish within 0\\.0[0-9]+ "
                                  "s\\. Give the kernels their own deadline, or pass a longer one\\."));
    }
    buffer->Flush(kToNic, Soon(), other.get());
  }
  const int looks = fake_cuda::Calls("cuEventQuery");
  EXPECT_THAT(WhyNot(*buffers[0], kToNic, {}).what(), HasSubstr("it did not finish within 0 s"));
  EXPECT_EQ(fake_cuda::Calls("cuEventQuery"), looks + 1) << "a passed deadline does not wait";
  work.End();
  buffers[0]->Flush(kToNic, Soon());
  buffers[0]->Flush(kToNic, Soon(), stream.get());
}

TEST_F(Flush, SleepsWhileItWaits) {
  fake_cuda::Configure("delay_us=1");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
  const DriverContext context;
  const ProgramStream stream;
  const EndlessWork work(stream);
  const int before = fake_cuda::Calls("cuEventQuery");
  EXPECT_EQ(WhyNot(*buffer, kToNic, DeadlineIn(std::chrono::milliseconds(100))).error_number(), ETIMEDOUT);
  const int looks = fake_cuda::Calls("cuEventQuery") - before;
  EXPECT_GE(looks, 2);
  EXPECT_LE(looks, 110) << "one query per millisecond, and a few at the start";
}

TEST_F(Flush, NeedsAStreamOnAnOldDriver) {
  fake_cuda::Configure("version=12040");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
  const DriverContext context;
  const ProgramStream stream;
  const Error why = WhyNot(*buffer, kToNic);
  EXPECT_EQ(why.error_number(), EOPNOTSUPP);
  EXPECT_STREQ(why.what(),
               "Cannot finish the work of cuda:0: a driver before CUDA 12.5 cannot wait for all streams. "
               "Pass the stream (cudaStreamLegacy is the default one), or use NVIDIA's driver 555 or later.");
  buffer->Flush(kToNic, Soon(), stream.get());
}

TEST_F(Flush, NeedsNoCallIfTheGpuOrdersWrites) {
  for (const char* const ordering : {"writes_ordering=100", "writes_ordering=200"}) {
    fake_cuda::Configure(ordering);
    const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
    const DriverContext context;
    const ProgramStream stream;
    const int before = Fences();
    buffer->Flush(kToGpu, Soon());
    buffer->Flush(kToGpu, Soon(), stream.get());
    EXPECT_EQ(Fences(), before);
  }
}

TEST_F(Flush, UsesTheHostIfTheGpuDoesNotOrderWrites) {
  fake_cuda::Configure("writes_ordering=0,flush=1");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
  const DriverContext context;
  const ProgramStream stream;
  buffer->Flush(kToGpu, Soon());
  EXPECT_EQ(HostFlushes(), 1);
  buffer->Flush(kToGpu, Soon(), stream.get());
  EXPECT_EQ(HostFlushes(), 2) << "this GPU's streams cannot flush";
}

TEST_F(Flush, UsesTheStreamIfTheDriverCan) {
  fake_cuda::Configure("writes_ordering=0,flush=3,delay_us=2000");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
  const DriverContext context;
  const int before = fake_cuda::StreamFlushes();
  {
    const ProgramStream stream;
    const int waits = fake_cuda::Calls("cuEventRecord");
    buffer->Flush(kToGpu, Soon(), stream.get());
    EXPECT_EQ(fake_cuda::Calls("cuEventRecord"), waits) << "the host does not wait";
    buffer->Flush(kToNic, Soon(), stream.get());
  }
  EXPECT_EQ(fake_cuda::StreamFlushes(), before + 1) << "in stream order";
  EXPECT_EQ(HostFlushes(), 0);
  buffer->Flush(kToGpu, Soon());
  EXPECT_EQ(HostFlushes(), 1);
}

TEST_F(Flush, UsesItsOwnStreamIfOnlyStreamsFlush) {
  fake_cuda::Configure("writes_ordering=0,flush=2,delay_us=2000");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
  const int before = fake_cuda::StreamFlushes();
  buffer->Flush(kToGpu, Soon());
  EXPECT_EQ(fake_cuda::StreamFlushes(), before + 1) << "later kernels of any stream see the data";
  EXPECT_EQ(HostFlushes(), 0);
}

TEST_F(Flush, ReportsAGpuThatCannotFlush) {
  fake_cuda::Configure("writes_ordering=0,flush=0");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
  const Error why = WhyNot(*buffer, kToGpu);
  EXPECT_EQ(why.error_number(), EOPNOTSUPP);
  EXPECT_STREQ(why.what(),
               "Cannot flush NIC writes to memory of cuda:0: the GPU neither orders such writes nor flushes "
               "them. Let the NIC write to host memory, or use a driver that flushes.");
  buffer->Flush(kToNic, Soon());
}

TEST_F(Flush, CallsNoDriverForHostMemory) {
  fake_cuda::Configure("writes_ordering=0,flush=0");
  const auto buffer = HostMemoryKind().Allocate(kBytes);
  const int before = Fences();
  buffer->Flush(kToNic, Soon());
  buffer->Flush(kToGpu, Soon());
  EXPECT_EQ(Fences(), before);
}

TEST_F(Flush, CallsNothingForPinnedMemoryTowardsTheGpu) {
  fake_cuda::Configure("writes_ordering=0,flush=0");
  const auto buffer = PinnedMemoryKind(Gpu()).Allocate(kBytes);
  const int before = Fences();
  buffer->Flush(kToGpu, Soon());
  EXPECT_EQ(Fences(), before);
}

TEST_F(Flush, RejectsAnInvalidDirection) {
  fake_cuda::Configure("");
  const Gpu gpu;
  const std::unique_ptr<Buffer> buffers[] = {
      HostMemoryKind().Allocate(64), PinnedMemoryKind(gpu).Allocate(64), CudaMemoryKind(gpu).Allocate(64)};
  const int before = Fences();
  for (const auto& buffer : buffers) {
    for (const int direction : {2, -1, 1 << 30}) {
      const Error why = WhyNot(*buffer, static_cast<FlushDirection>(direction));
      EXPECT_EQ(why.error_number(), EINVAL);
      EXPECT_EQ(why.what(),
                "Cannot flush " + buffer->name() + ": direction " + std::to_string(direction) +
                    " is invalid: Invalid argument (EINVAL). Pass 0 for GPU to NIC, or 1 for NIC to GPU.");
    }
  }
  EXPECT_EQ(Fences(), before);
}

TEST_F(Flush, IsNotSupportedForDmaBufs) {
  fake_cuda::Configure("");
  FileDescriptor file(memfd_create("memory", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  const auto buffer = WrapDmaBuf({std::move(file), 0x10000, kBytes}, reinterpret_cast<void*>(0x10000), 64);
  EXPECT_EQ(WhyNot(*buffer, kToNic).error_number(), EOPNOTSUPP);
}

TEST_F(Flush, ReachesTheMemoryOfAPooledBuffer) {
  fake_cuda::Configure("writes_ordering=0");
  const Device* const devices[] = {&device_};
  BufferPool pool(CudaMemoryKind(Gpu()), devices, {.buffer_bytes = 64, .count = 2});
  const BufferPool::Lease lease = pool.Allocate();
  lease.Flush(kToGpu, Soon());
  EXPECT_EQ(HostFlushes(), 1);
  EXPECT_THROW(BufferPool::Lease().Flush(kToGpu, Soon()), Error);
}

TEST_F(Flush, ReportsEveryFailedCall) {
  fake_cuda::Configure("writes_ordering=0,flush=1");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(kBytes);
  EXPECT_EQ(ForEachFailure([&] {
              buffer->Flush(kToNic, Soon());
              buffer->Flush(kToGpu, Soon());
            }),
            5);
}

}  // namespace
}  // namespace warpverbs::host
