// The host posts between kernels: it sends the bytes of the last kernel, and the next kernel sees the
// received bytes.
#include <atomic>
#include <chrono>

#include "host_poster.hpp"
#include "pair.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"

namespace warpverbs::gpu {
namespace {

using host::FlushDirection;

constexpr uint64_t kRounds = 10'000;
constexpr uint64_t kBytes = 16'001;

__global__ void WriteRound(uint8_t* to, uint64_t round) {
  for (uint64_t i = threadIdx.x; i < kBytes; i += blockDim.x) to[i] = ByteOf(round, i);
}

__global__ void CountStale(const uint8_t* at, uint64_t round, unsigned long long* stale) {
  unsigned long long mine = 0;
  for (uint64_t i = threadIdx.x; i < kBytes; i += blockDim.x) mine += at[i] != ByteOf(round, i);
  if (mine != 0) atomicAdd(stale, mine);
}

__global__ void RunUntil(const volatile int* end) {
  const uint64_t deadline = arch::Cuda::NowNs() + kTimeoutNs;
  while (*end == 0 && arch::Cuda::NowNs() < deadline) __nanosleep(1000);
}

/// Memory of a GPU and the stream of its kernels.
struct Side {
  Side(const host::Device& device, int ordinal)
      : gpu(ordinal),
        buffer(host::CudaMemoryKind(gpu).Allocate(kBytes)),
        view(buffer->Register(device, {.remote_write = true})),
        stream(ordinal) {}

  uint8_t* data() const { return reinterpret_cast<uint8_t*>(buffer->data()); }
  void Flush(FlushDirection direction, bool by_stream) const {
    buffer->Flush(direction, host::DeadlineIn(std::chrono::nanoseconds(kTimeoutNs)),
                  by_stream ? stream.get() : nullptr);
  }

  host::Gpu gpu;
  std::unique_ptr<host::Buffer> buffer;
  host::MemoryRegion view;
  CudaStream stream;
};

void ExpectNothingStale(int from_gpu, int to_gpu, bool by_stream) {
  const std::shared_ptr<host::Device> device = e2e::OpenNic();
  host::Endpoint a(*device), b(*device);
  a.Connect(b.Info());
  b.Connect(a.Info());
  const Side from(*device, from_gpu), to(*device, to_gpu);
  const Mapped<unsigned long long> stale(to.gpu);
  const host::MemoryView source = from.view.View().First(kBytes), target = to.view.View().First(kBytes);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    CheckCuda(cudaSetDevice(from_gpu), "take a GPU");
    WriteRound<<<1, 256, 0, from.stream.get()>>>(from.data(), round);
    from.Flush(FlushDirection::kGpuToNic, by_stream);
    to.Flush(FlushDirection::kGpuToNic, by_stream);  // waits for the kernel that checks the last round
    ASSERT_TRUE(IsOk(WriteFromHost(a, target, source, kTimeoutNs)));
    to.Flush(FlushDirection::kNicToGpu, by_stream);
    CheckCuda(cudaSetDevice(to_gpu), "take a GPU");
    CountStale<<<1, 256, 0, to.stream.get()>>>(to.data(), round, stale.get());
  }
  CheckCuda(cudaGetLastError(), "launch a kernel");
  to.stream.Wait();
  EXPECT_EQ(*stale, 0U) << "stale bytes: either sent or received too early";
  CheckCuda(cudaSetDevice(0), "take a GPU");
}

TEST(Flush, TimesOutWhileAKernelRuns) {
  const host::Gpu gpu;
  const auto buffer = host::CudaMemoryKind(gpu).Allocate(kBytes);
  const CudaStream stream(0);  // non-blocking: the legacy stream does not wait for it
  const Mapped<int> end(gpu);
  const auto flush = [&](std::chrono::milliseconds time, void* of) {
    buffer->Flush(FlushDirection::kGpuToNic, host::DeadlineIn(time), of);
  };
  RunUntil<<<1, 1, 0, stream.get()>>>(end.get());
  EXPECT_THROW(flush(std::chrono::milliseconds(50), stream.get()), host::Error);
  EXPECT_THROW(flush(std::chrono::milliseconds(50), nullptr), host::Error);
  std::atomic_ref(*end).store(1);
  EXPECT_NO_THROW(flush(std::chrono::seconds(30), nullptr));
  EXPECT_NO_THROW(flush(std::chrono::milliseconds(0), stream.get())) << "no kernel is running";
}

TEST(Flush, LeavesNoStaleByteOfAStream) { ExpectNothingStale(0, 0, true); }
TEST(Flush, LeavesNoStaleByteOfTheGpu) { ExpectNothingStale(0, 0, false); }
TEST(Flush, LeavesNoStaleByteOfTwoGpus) {
  if (host::Gpu::Count() < 2) GTEST_SKIP() << "this machine has one GPU";
  ExpectNothingStale(0, 1, true);
}

}  // namespace
}  // namespace warpverbs::gpu
