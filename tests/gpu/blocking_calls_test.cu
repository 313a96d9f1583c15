// Calls of CUDA beside a kernel that waits for softhca. softhca copies by calls of the driver, so a call that
// waits for the kernel and keeps other threads out of the driver meanwhile would hold up the completion that
// the kernel waits for. A ConnectX needs no driver, and passes all of these tests.
#include <chrono>
#include <functional>
#include <ostream>
#include <thread>

#include "pair.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kKernelLimitNs = 2'000'000'000;
constexpr auto kStart = milliseconds(100);  // of the call, before the kernel posts

struct Steps {
  uint64_t running = 0, go = 0, done = 0;
  Status status{};
};

/// Posts a write once it is told to, and waits for its completion.
template <class A>
__global__ void PostWhenTold(QueueView view, LocalMemory local, RemoteMemory remote, Steps* steps) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const WaitLimit limit{.deadline_ns = A::NowNs() + kKernelLimitNs};
  arch::CudaSystem::Store(&steps->running, 1);
  while (arch::CudaSystem::Load(&steps->go) == 0 && A::NowNs() < limit.deadline_ns) {
  }
  const Posted posted = queue.Post(device::Write(remote, local), limit);
  steps->status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  arch::CudaSystem::Store(&steps->done, 1);
}

__global__ void DoNothing() {}
/// Loaded by its first launch only, if CUDA loads kernels lazily.
__global__ void LaunchedOnce(int* to) { *to = 1; }

/// What a call may use, made before the kernel runs.
struct Things {
  static constexpr size_t kBytes = 1 << 20;

  explicit Things(const host::Gpu& gpu) : stream(gpu.ordinal()), pageable(kBytes), registered(kBytes) {
    CheckCuda(cudaMalloc(&memory, kBytes), "allocate");
    CheckCuda(cudaMalloc(&other, kBytes), "allocate");
    CheckCuda(cudaMallocHost(&pinned, kBytes), "allocate pinned memory");
    CheckCuda(cudaMallocAsync(&pooled, kBytes, stream.get()), "allocate from the pool");
    CheckCuda(cudaEventCreate(&event), "create an event");
    stream.Wait();
    CheckCuda(cudaHostRegister(registered.data(), kBytes, cudaHostRegisterDefault), "register memory");
    Load(DoNothing);
  }
  ~Things() {
    cudaFree(memory);
    cudaFree(other);
    cudaFree(late);
    cudaFreeHost(late_pinned);
    if (pageable_is_registered) cudaHostUnregister(pageable.data());
    if (registered_is_registered) cudaHostUnregister(registered.data());
    cudaFreeHost(pinned);
    if (pooled != nullptr) cudaFreeAsync(pooled, stream.get());
    cudaEventDestroy(event);
  }

  CudaStream stream;
  std::vector<std::byte> pageable, registered;
  void *memory = nullptr, *other = nullptr, *pinned = nullptr, *pooled = nullptr;
  void *late = nullptr, *late_pinned = nullptr;  ///< allocated by a call
  bool pageable_is_registered = false, registered_is_registered = true;
  cudaEvent_t event = nullptr;
};

struct Call {
  const char* name;
  std::function<void(Things&)> make;
  bool holds_up = false;  ///< known to hold up softhca until the kernel ends

  friend void PrintTo(const Call& call, std::ostream* out) { *out << call.name; }
};

const Call kCalls[] = {
    {"Launch", [](Things& t) { DoNothing<<<1, 1, 0, t.stream.get()>>>(); }},
    {"FirstLaunch",
     [](Things& t) { LaunchedOnce<<<1, 1, 0, t.stream.get()>>>(static_cast<int*>(t.memory)); }},
    {"CopyFromPinned",
     [](Things& t) {
       cudaMemcpyAsync(t.memory, t.pinned, Things::kBytes, cudaMemcpyHostToDevice, t.stream.get());
       t.stream.Wait();
     }},
    {"CopyToPinned",
     [](Things& t) {
       cudaMemcpyAsync(t.pinned, t.memory, Things::kBytes, cudaMemcpyDeviceToHost, t.stream.get());
       t.stream.Wait();
     }},
    {"CopyFromPageable",
     [](Things& t) {
       cudaMemcpyAsync(t.memory, t.pageable.data(), Things::kBytes, cudaMemcpyHostToDevice, t.stream.get());
       t.stream.Wait();
     }},
    {"CopyToPageable",
     [](Things& t) {
       cudaMemcpyAsync(t.pageable.data(), t.memory, Things::kBytes, cudaMemcpyDeviceToHost, t.stream.get());
       t.stream.Wait();
     }},
    {"CopyWithin",
     [](Things& t) {
       cudaMemcpyAsync(t.other, t.memory, Things::kBytes, cudaMemcpyDeviceToDevice, t.stream.get());
       t.stream.Wait();
     }},
    {"CopyInTheDefaultStream",
     [](Things& t) { cudaMemcpy(t.memory, t.pageable.data(), Things::kBytes, cudaMemcpyHostToDevice); }},
    {"Set", [](Things& t) { cudaMemsetAsync(t.memory, 0, Things::kBytes, t.stream.get()); }},
    {"Allocate", [](Things& t) { cudaMalloc(&t.late, 64 << 20); }},
    {"Free", [](Things& t) { cudaFree(std::exchange(t.other, nullptr)); }, true},
    {"AllocateFromThePool",
     [](Things& t) {
       void* memory = nullptr;
       cudaMallocAsync(&memory, 64 << 20, t.stream.get());
       cudaFreeAsync(memory, t.stream.get());
     }},
    {"FreeToThePool", [](Things& t) { cudaFreeAsync(std::exchange(t.pooled, nullptr), t.stream.get()); }},
    {"AllocatePinned", [](Things& t) { cudaMallocHost(&t.late_pinned, 1 << 20); }},
    {"FreePinned", [](Things& t) { cudaFreeHost(std::exchange(t.pinned, nullptr)); }, true},
    {"RegisterMemory",
     [](Things& t) {
       t.pageable_is_registered =
           cudaHostRegister(t.pageable.data(), Things::kBytes, cudaHostRegisterDefault) == cudaSuccess;
     }},
    {"UnregisterMemory",
     [](Things& t) {
       t.registered_is_registered = false;
       cudaHostUnregister(t.registered.data());
     },
     true},
    {"CreateAStream",
     [](Things&) {
       cudaStream_t stream = nullptr;
       cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
       cudaStreamDestroy(stream);
     }},
    {"CreateAnEvent",
     [](Things&) {
       cudaEvent_t event = nullptr;
       cudaEventCreate(&event);
       cudaEventDestroy(event);
     }},
    {"WaitForAnEvent",
     [](Things& t) {
       cudaEventRecord(t.event, t.stream.get());
       cudaEventSynchronize(t.event);
     }},
    {"WaitForTheDefaultStream", [](Things&) { cudaStreamSynchronize(nullptr); }},
    {"WaitForTheDevice", [](Things&) { cudaDeviceSynchronize(); }},
    {"AttributesOfAPointer",
     [](Things& t) {
       cudaPointerAttributes attributes{};
       cudaPointerGetAttributes(&attributes, t.memory);
     }},
    {"FreeMemory",
     [](Things&) {
       size_t free = 0, total = 0;
       cudaMemGetInfo(&free, &total);
     }},
};

class BlockingCalls : public testing::TestWithParam<Call> {};

TEST_P(BlockingCalls, BesideAKernelThatWaits) {
  const Pair pair;
  const Mapped<Steps> steps(pair.gpu_a);
  Things things(pair.gpu_a);
  const CudaStream stream(pair.gpu_a.ordinal());
  pair.source.SetWord(0, 42);
  WithArch(pair.scope(), [&](auto arch) {
    using A = decltype(arch);
    Load(PostWhenTold<A>);
    PostWhenTold<A><<<1, 1, 0, stream.get()>>>(pair.a.View(), pair.source.Local(0, 8), pair.target.Remote(0),
                                               steps.get());
  });
  CheckCuda(cudaGetLastError(), "launch a kernel");
  const auto read = [](const uint64_t& word) { return arch::Cpu::Load(&word); };
  const auto wait_for = [&](const uint64_t& word) {
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    while (read(word) == 0 && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    return read(word) != 0;
  };
  ASSERT_TRUE(wait_for(steps->running));
  bool waited = false;  // the call returned only after the kernel's end
  std::thread caller([&] {
    cudaSetDevice(pair.gpu_a.ordinal());
    GetParam().make(things);
    waited = read(steps->done) != 0;
  });
  std::this_thread::sleep_for(kStart);
  arch::Cpu::Store(&steps->go, uint64_t{1});
  const bool ended = wait_for(steps->done);
  caller.join();
  stream.Wait();
  ASSERT_TRUE(ended) << "the kernel's own deadline ends it";
  const bool held_up = !steps->status.ok();
  std::printf("%-26s %s%s\n", GetParam().name, waited ? "waits for the kernel" : "returns at once",
              held_up ? ", and holds up softhca" : "");
  if (!GetParam().holds_up) {
    EXPECT_TRUE(IsOk(steps->status));
  }
  if (held_up) {
    EXPECT_EQ(steps->status.code, Code::kTimeout);
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(, BlockingCalls, testing::ValuesIn(kCalls),
                         [](const auto& call) { return call.param.name; });

}  // namespace
}  // namespace warpverbs::gpu
