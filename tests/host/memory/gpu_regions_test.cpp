#include <algorithm>
#include <vector>

#include "host/gpu/driver_memory.hpp"
#include "host/gpu/gpu_failures.hpp"
#include "host/gpu/gpu_fixture.hpp"
#include "host/log/refusal.hpp"
#include "memory/gpu_access.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

/// GPU memory that a NIC reaches.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class GpuRegions : public WithGpu {
 protected:
  std::string WhyRefusedRegion(void* memory, size_t bytes = 100) const {
    return host::WhyRefused([&] { MemoryRegion(device_, memory, bytes); });
  }
};

TEST_F(GpuRegions, ExportAnyAddress) {
  const Gpu gpu;
  for (const size_t offset : {0, 1, 4096, 5000}) {
    const GpuMemory memory(gpu, 100'000);
    const MemoryRegion region(device_, memory.data() + offset, 3 * 4096 + 10);
    EXPECT_EQ(region.method(), RegistrationMethod::kDmaBuf) << offset;
    EXPECT_EQ(region.View().addr, reinterpret_cast<uint64_t>(memory.data() + offset));
    EXPECT_EQ(region.View().bytes, 3 * 4096 + 10);
    EXPECT_NE(region.View().lkey, 0);
  }
}

TEST_F(GpuRegions, RegisterByAddressIfTheDriverExportsNothing) {
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  EXPECT_FALSE(fake_cuda::HasSyncMemops(memory.data()));
  const MemoryRegion region(device_, memory.data() + 8, 64);
  EXPECT_EQ(region.method(), RegistrationMethod::kPeerMemory);
  EXPECT_EQ(region.View().addr, reinterpret_cast<uint64_t>(memory.data() + 8));
  EXPECT_TRUE(fake_cuda::HasSyncMemops(memory.data()));
}

TEST_F(GpuRegions, ReportEachReasonIfTheNicReachesNothing) {
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  fake_cuda::FailCall("cuPointerSetAttribute", 1, 801);
  EXPECT_THAT(WhyRefusedRegion(memory.data()),
              testing::AllOf(
                  HasSubstr("Cannot register 100 bytes at "),
                  HasSubstr(" (GPU memory, cuda:0) on mlx5_0: by dma-buf: "), HasSubstr("; by peer memory: "),
                  HasSubstr(". Use memory of cudaMalloc() in the GPU's primary context, or NVIDIA's open")));
}

TEST_F(GpuRegions, SynchronizeCopiesOfPoolsToo) {
  fake_cuda::Configure("dma_buf=0,pools=1");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  ASSERT_FALSE(DescribePointer(memory.data()).ipc) << "as memory that another process shares";
  fake_cuda::FailCall("cuPointerSetAttribute", 1, 801);
  EXPECT_THAT(WhyRefusedRegion(memory.data()),
              testing::AllOf(HasSubstr("; by peer memory: "), testing::Not(HasSubstr("another process"))));
  EXPECT_EQ(MemoryRegion(device_, memory.data(), 100).method(), RegistrationMethod::kPeerMemory);
  EXPECT_TRUE(fake_cuda::HasSyncMemops(memory.data()));
}

TEST_F(GpuRegions, NameCuMemCreateIfTheNicReachesNothing) {
  const Gpu gpu;
  const VmmMemory memory(1, {.gpu_direct = false});
  EXPECT_THAT(WhyRefusedRegion(memory.data()),
              HasSubstr("; it is memory of cuMemCreate() without gpuDirectRDMACapable. Use memory of "));
}

TEST_F(GpuRegions, ExportSeveralMappingsAsOne) {
  const Gpu gpu;
  VmmMemory memory(3);
  EXPECT_EQ(MemoryRegion(device_, memory.data() + 100, 3 * VmmMemory::kChunk - 100).method(),
            RegistrationMethod::kDmaBuf);
  memory.Unmap(1);
  EXPECT_THAT(WhyRefusedRegion(memory.data(), 2 * VmmMemory::kChunk),
              HasSubstr("on mlx5_0: a part of it is not mapped (cuMemMap()). Register only mapped memory."));
}

TEST_F(GpuRegions, ExportOneMapping) {
  const Gpu gpu;
  const VmmMemory memory(2);
  const MemoryRegion region(device_, memory.data() + VmmMemory::kChunk, VmmMemory::kChunk);
  EXPECT_EQ(region.method(), RegistrationMethod::kDmaBuf);
}

TEST_F(GpuRegions, SayIfTheGpuDoesNotExposeCuMemCreateMemory) {
  fake_cuda::Configure("dma_buf=0,vmm=0");
  const Gpu gpu;
  const VmmMemory memory(1);
  EXPECT_THAT(WhyRefusedRegion(memory.data()),
              HasSubstr("; it is memory of cuMemCreate(), which this GPU does not expose to NICs. "));
}

TEST_F(GpuRegions, NeedPeerMemoryIfTheKernelDoesNotKnowTheAddress) {
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  const GpuRegistration registration{
      .by_dma_buf = [](const DmaBuf&) {},
      .by_address = [] { throw Error("register", "it", "bad address", "None"); }};
  try {
    RegisterGpuMemory(registration, gpu, memory.data(), 4096, "a page");
    FAIL() << "an unknown address was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::EndsWith("; by peer memory: bad address. Load nvidia_peermem (modprobe "
                                  "nvidia_peermem), or use NVIDIA's open kernel modules on Linux 5.12 or "
                                  "later, which export dma-bufs."));
  }
}

TEST_F(GpuRegions, RejectManagedMemory) {
  const Gpu gpu;  // initializes the driver
  const DriverContext context;
  uint64_t managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, 1), 0);
  EXPECT_THAT(
      WhyRefusedRegion(reinterpret_cast<void*>(managed)),
      HasSubstr(
          "it is managed memory, which moves between host and GPU while the NIC works on it. Allocate it "
          "with cudaMalloc() or cudaMallocHost(), or their HIP equivalents."));
  cuMemFree_v2(managed);
}

TEST_F(GpuRegions, TreatMappedHostMemoryAsHostMemory) {
  const Gpu gpu;
  HostPages pages(4096);
  const GpuMapping mapping(gpu, pages.bytes());
  EXPECT_EQ(MemoryRegion(device_, pages.data(), 4096).method(), RegistrationMethod::kHost);
}

TEST_F(GpuRegions, ReportEveryFailedCallWithoutLeaks) {
  EXPECT_GT(ForEachFailure([&] {
              const Gpu gpu;
              const GpuMemory memory(gpu, 4096);
              const MemoryRegion region(device_, memory.data(), 64);
            }),
            10);
}

TEST_F(GpuRegions, CarryDataFromGpuToGpu) {
  fake_cuda::Configure("gpus=2");
  const Gpu here(0), there(1);
  const GpuMemory source(here, 300'000), target(there, 300'000);
  source.Fill(0, source.size(), std::byte{0x5a});
  const MemoryRegion from(device_, source.data() + 1, 300'000 - 1);
  const MemoryRegion to(device_, target.data() + 3, 300'000 - 3, {.remote_write = true});
  for (const Placement placement : {Placement::kHost, Placement::kGpu}) {
    target.Fill(0, target.size(), std::byte{});
    Link link(device_, {.gpu = &here, .placement = placement}, {.gpu = &there, .placement = placement});
    link.Connect();
    {
      const fake_cuda::Kernel kernel;
      Queue queue(link.a.View());
      const device::Posted posted =
          queue.Post(device::Write(to.View().Remote(), from.View().First(299'990).Local()), Within());
      ASSERT_TRUE(posted.status.ok());
      ASSERT_TRUE(queue.Wait(posted.ticket, Within()).ok());
    }
    std::vector<std::byte> arrived(299'990 + 4);
    target.CopyOut(2, arrived);
    EXPECT_EQ(arrived[0], std::byte{}) << "before the first";
    EXPECT_EQ(std::count(arrived.begin(), arrived.end(), std::byte{0x5a}), 299'990);
    EXPECT_EQ(arrived[299'991], std::byte{}) << "after the last";
  }
}

}  // namespace
}  // namespace warpverbs::host
