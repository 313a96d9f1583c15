#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <utility>

#include "host/gpu/driver_memory.hpp"
#include "host/gpu/gpu_fixture.hpp"
#include "host/log/refusal.hpp"
#include "host/memory/registration_calls.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_pool.hpp"

/// Parameters of the calls to libibverbs, and error texts if it refuses.
namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

/// Sets RLIMIT_MEMLOCK for a scope. It does not bind a privileged process, but errors report it.
class LockedMemory {
 public:
  explicit LockedMemory(rlim_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    const rlimit now{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &now), 0);
  }
  ~LockedMemory() { setrlimit(RLIMIT_MEMLOCK, &before_); }
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;

 private:
  rlimit before_{};
};

class Registration : public WithGpu {
 protected:
  ~Registration() override { Inject(RegistrationFault{}); }

  std::string WhyUnregistered(void* memory, size_t bytes = 64) const {
    return host::WhyRefused([&] { MemoryRegion(device_, memory, bytes); });
  }

  LockedMemory limit_{65536};
};

constexpr char kLimit[] = ", where the limit on locked memory, RLIMIT_MEMLOCK, is 64 KiB. ";

TEST_F(Registration, ReportsTheLimitForHostMemoryBeyondIt) {
  HostPages pages(64);
  Inject(RegistrationFault{.by_address = ENOMEM});
  EXPECT_THAT(WhyUnregistered(pages.data()),
              AllOf(HasSubstr("Cannot register 64 bytes at 0x"),
                    EndsWith(" (host memory) on mlx5_0: by its address: Cannot allocate memory (ENOMEM)" +
                             std::string(kLimit) +
                             "Raise RLIMIT_MEMLOCK (`ulimit -l unlimited`, or memlock in "
                             "/etc/security/limits.conf).")));
}

TEST_F(Registration, ReportsAnUnmappedAddress) {
  EXPECT_EQ(WhyUnregistered(reinterpret_cast<void*>(0x1000)),
            "Cannot register 64 bytes at 0x1000 (host memory) on mlx5_0: by its address: Bad address "
            "(EFAULT). Check that the address is in mapped, writable memory and that the device supports the "
            "access asked for.");
  EXPECT_THAT(WhyUnregistered(nullptr),
              HasSubstr("Cannot register 64 bytes at (nil) (unallocated memory) on "));
}

TEST_F(Registration, ReportsEachMethodForGpuMemory) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  Inject(RegistrationFault{.by_address = EFAULT, .by_dma_buf = EINVAL});
  EXPECT_THAT(WhyUnregistered(memory.data()),
              EndsWith(" (GPU memory, cuda:0) on mlx5_0: by dma-buf: Invalid argument (EINVAL); by peer "
                       "memory: Bad address (EFAULT). Load nvidia_peermem (modprobe nvidia_peermem), or use "
                       "NVIDIA's open kernel modules "
                       "on Linux 5.12 or later, which export dma-bufs."));
}

TEST_F(Registration, AdvisesToRaiseTheLimitForGpuMemoryBeyondIt) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  Inject(RegistrationFault{.by_address = ENOMEM, .by_dma_buf = EINVAL});
  EXPECT_THAT(WhyUnregistered(memory.data()), HasSubstr(std::string(kLimit) + "Raise RLIMIT_MEMLOCK ("));
}

TEST_F(Registration, UsesTheRemainingMethodForGpuMemory) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  Inject(RegistrationFault{.by_dma_buf = EINVAL});
  const MemoryRegion region(device_, memory.data(), 64, {.relaxed_ordering = true});
  EXPECT_EQ(region.method(), RegistrationMethod::kPeerMemory);
  EXPECT_TRUE(region.View().access.relaxed_ordering);
}

TEST_F(Registration, NamesVmmMemoryAndTheMissingFlag) {
  const Gpu gpu;
  const VmmMemory memory(1, {.gpu_direct = false});
  EXPECT_THAT(WhyUnregistered(memory.data()),
              AllOf(HasSubstr(" (GPU memory by cuMemCreate(), cuda:0) on mlx5_0: by dma-buf: "),
                    HasSubstr("; by peer memory: "),
                    HasSubstr("; it is memory of cuMemCreate() without gpuDirectRDMACapable. Use memory")));
}

TEST_F(Registration, RejectsManagedMemory) {
  const Gpu gpu;  // initializes the driver
  const DriverContext context;
  uint64_t managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, 1), 0);
  EXPECT_THAT(WhyUnregistered(reinterpret_cast<void*>(managed)),
              HasSubstr(" (managed memory) on mlx5_0: it is managed memory, which moves between host and GPU "
                        "while the NIC works on it. Allocate it with cudaMalloc()"));
  cuMemFree_v2(managed);
}

TEST_F(Registration, ReportsAFailedDmaBuf) {
  FileDescriptor file(memfd_create("memory", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  const DmaBuf buffer(std::move(file), 0x10000, 4096);
  Inject(RegistrationFault{.by_dma_buf = EPERM});
  try {
    const MemoryRegion region(device_, buffer, reinterpret_cast<void*>(0x10010), 16, {});
    FAIL() << kAccepted;
  } catch (const Error& error) {
    EXPECT_EQ(error.error_number(), EPERM);
    EXPECT_THAT(error.what(),
                testing::StartsWith("Cannot register 16 bytes at 0x10010 (a dma-buf) on mlx5_0: by dma-buf: "
                                    "Operation not permitted (EPERM). "));
  }
}

/// Returns how many exports over PCIe a call requests.
template <class Call>
int PcieExportsOf(const Call& call) {
  const int before = fake_cuda::PcieExports();
  call();
  return fake_cuda::PcieExports() - before;
}

TEST_F(Registration, ExportsOverPcieOnlyOnRequest) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  EXPECT_EQ(PcieExportsOf([&] { MemoryRegion(device_, memory.data(), 64); }), 0);
  EXPECT_EQ(PcieExportsOf([&] { DmaBuf(gpu, memory.data(), 64); }), 0);
  EXPECT_EQ(PcieExportsOf([&] {
              const MemoryRegion region(device_, memory.data(), 64, {.over_pcie = true});
              EXPECT_EQ(region.method(), RegistrationMethod::kDmaBuf);
            }),
            1);
  EXPECT_EQ(PcieExportsOf([&] { DmaBuf(gpu, memory.data(), 64, {.over_pcie = true}); }), 1);
  EXPECT_EQ(PcieExportsOf([&] { Endpoint(device_, {.gpu = &gpu, .over_pcie = true}); }), 1);
  QueuePool pool(device_);
  EXPECT_EQ(PcieExportsOf([&] {
              const Endpoint one(device_, {.pool = &pool, .gpu = &gpu});
              const Endpoint other(device_, {.pool = &pool, .gpu = &gpu, .over_pcie = true});
            }),
            1)
      << "a pool has separate chunks for each kind";
  HostPages pages(64);
  EXPECT_EQ(PcieExportsOf([&] { MemoryRegion(device_, pages.data(), 64, {.over_pcie = true}); }), 0);
}

TEST_F(Registration, ReportsThatTheDriverIsTooOldForPcie) {
  fake_cuda::Configure("version=12020");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  EXPECT_EQ(host::WhyRefused([&] { DmaBuf(gpu, memory.data(), 64, {.over_pcie = true}); }),
            "Cannot export 64 bytes of memory of cuda:0: a mapping over PCIe needs CUDA 12.8, and the driver "
            "has CUDA 12.2. Use NVIDIA's driver 570 or later with its open kernel modules, or do not ask for "
            "a mapping over PCIe.");
  Inject(RegistrationFault{.by_address = EFAULT});
  EXPECT_THAT(host::WhyRefused([&] { MemoryRegion(device_, memory.data(), 64, {.over_pcie = true}); }),
              AllOf(HasSubstr("by dma-buf: a mapping over PCIe needs CUDA 12.8, and the driver has CUDA "
                              "12.2; by peer memory: Bad address (EFAULT)"),
                    EndsWith("or do not ask for a mapping over PCIe.")));
  Inject(RegistrationFault{});
  EXPECT_EQ(MemoryRegion(device_, memory.data(), 64).method(), RegistrationMethod::kDmaBuf)
      << "otherwise the driver may be too old";
}

TEST_F(Registration, ReportsThatTheDriverRefusesPcie) {
  fake_cuda::Configure("pcie=0");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  EXPECT_THAT(host::WhyRefused([&] { DmaBuf(gpu, memory.data(), 64, {.over_pcie = true}); }),
              HasSubstr("Cannot export 64 bytes of memory of cuda:0: over PCIe: the fake driver refuses "
                        "(CUDA_ERROR_NOT_SUPPORTED). Use NVIDIA's driver 570"));
  EXPECT_EQ(MemoryRegion(device_, memory.data(), 64, {.over_pcie = true}).method(),
            RegistrationMethod::kPeerMemory);
  fake_cuda::FailCall("cuDriverGetVersion", 1);
  EXPECT_THAT(host::WhyRefused([&] { DmaBuf(gpu, memory.data(), 64, {.over_pcie = true}); }),
              HasSubstr("CUDA_ERROR_UNKNOWN"));
}

TEST_F(Registration, PassesTheOffsetInTheFirstPage) {
  const Gpu gpu;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::mt19937_64 random(20'260'102);
  for (int times = 0; times < 300; ++times) {
    const GpuMemory memory(gpu, 100'000);  // new memory: a page of the fake has one file
    const size_t offset = random() % 60'000, bytes = random() % (100'000 - offset) + 1;
    const auto address = reinterpret_cast<uint64_t>(memory.data() + offset);
    const MemoryRegion region(device_, memory.data() + offset, bytes);
    const DmaBufCall call = LastDmaBufCall();
    ASSERT_EQ(region.method(), RegistrationMethod::kDmaBuf);
    ASSERT_EQ(call.iova, address);
    ASSERT_EQ(call.offset, address % page) << "of the page that the file begins with";
    ASSERT_EQ(call.offset % page, call.iova % page);
    ASSERT_EQ(call.bytes, bytes);
    ASSERT_EQ(fcntl(call.file, F_GETFD), -1) << "it is closed once the region is there";
    ASSERT_EQ(region.View().addr, address);
  }
}

TEST_F(Registration, SkipsDmaBufIfTheGpuExportsNothing) {
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  EXPECT_FALSE(gpu.attributes().dma_buf);
  const GpuMemory memory(gpu, 4096);
  const int before = Registrations();
  EXPECT_EQ(MemoryRegion(device_, memory.data(), 64).method(), RegistrationMethod::kPeerMemory);
  EXPECT_EQ(Registrations(), before + 1) << "by its address";
}

TEST_F(Registration, RequestsOnlyTheNeededAccess) {
  HostPages pages(64);
  const auto asked = [&](const Access& access) {
    const MemoryRegion region(device_, pages.data(), 64, access);
    return LastAccess();
  };
  EXPECT_EQ(asked({}), IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(asked({.local_write = false}), 0);
  EXPECT_EQ(asked({.remote_atomic = true}), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  EXPECT_EQ(asked({.relaxed_ordering = true}), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
}

}  // namespace
}  // namespace warpverbs::host
