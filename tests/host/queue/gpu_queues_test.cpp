#include "host/gpu/gpu_failures.hpp"
#include "host/gpu/gpu_fixture.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/shared_completions.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Queues for GPU kernels: where they are placed, and that everything works there.
namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Makes the GPU unreachable for NICs: copies cannot be made synchronous, and the driver exports nothing.
void HideGpuMemory() {
  fake_cuda::Configure("dma_buf=0");
  fake_cuda::FailCall("cuPointerSetAttribute", 1, 801);
}

using GpuQueues = WithGpu;

TEST_F(GpuQueues, AreInExportedGpuMemory) {
  const Gpu gpu;
  const Endpoint endpoint(device_, {.gpu = &gpu});
  EXPECT_TRUE(endpoint.on_gpu());
  EXPECT_EQ(endpoint.ReleaseScope(), arch::Scope::kGpu);
  EXPECT_THAT(endpoint.Describe(),
              AllOf(HasSubstr("bytes of memory of cuda:0, GPU memory by dma-buf (the NIC reaches it)\n"),
                    HasSubstr("posters: kernels of cuda:0, Fake GPU at 0000:41:00.0;")));
}

TEST_F(GpuQueues, DescribeWhatTheGpuOffersToNics) {
  const Gpu able;
  EXPECT_THAT(Endpoint(device_, {.gpu = &able}).Describe(),
              HasSubstr("; the host can flush them; NICs can reach memory of cuMemCreate()\n"));
  fake_cuda::Configure("gpus=2,flush=2,vmm=0");
  const Gpu unable(1);
  EXPECT_THAT(Endpoint(device_, {.gpu = &unable}).Describe(),
              HasSubstr("; the host cannot flush them; NICs cannot reach memory of cuMemCreate()\n"));
}

TEST_F(GpuQueues, AreInGpuMemoryThatTheKernelKnowsByAddress) {
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  const Endpoint endpoint(device_, {.gpu = &gpu, .placement = Placement::kGpu});
  EXPECT_TRUE(endpoint.on_gpu());
  EXPECT_THAT(endpoint.Describe(),
              HasSubstr("bytes of memory of cuda:0, GPU memory by peer memory (as asked)\n"));
  EXPECT_TRUE(fake_cuda::HasSyncMemops(endpoint.View().sq)) << "otherwise the NIC might read old data";
}

TEST_F(GpuQueues, AreInHostMemoryIfTheNicDoesNotReachTheGpu) {
  HideGpuMemory();
  const Gpu gpu;
  Link link(device_, {.gpu = &gpu});
  EXPECT_FALSE(link.a.on_gpu());
  EXPECT_EQ(link.a.ReleaseScope(), arch::Scope::kSystem);
  EXPECT_THAT(
      link.a.Describe(),
      HasSubstr("bytes of host memory, mapped for the GPU (GPU memory failed: by dma-buf: the fake driver "
                "refuses (CUDA_ERROR_NOT_SUPPORTED); by peer memory: the fake driver refuses "
                "(CUDA_ERROR_NOT_SUPPORTED))\n"));
  EXPECT_EQ(fake_cuda::HeldNow().allocations, 0);
  link.Connect();
  EXPECT_TRUE(link.Write(10).ok());
}

TEST_F(GpuQueues, AreInHostMemoryOnRequest) {
  const Gpu gpu;
  Link link(device_, {.gpu = &gpu, .placement = Placement::kHost});
  EXPECT_THAT(link.a.Describe(), HasSubstr("bytes of host memory, mapped for the GPU (as asked)\n"));
  EXPECT_EQ(fake_cuda::Calls("cuMemAlloc_v2"), 0);
  EXPECT_EQ(fake_cuda::HeldNow().registrations, 3) << "the queues, the host's words, the register";
  link.Connect();
  EXPECT_TRUE(link.Write(200).ok());
}

TEST_F(GpuQueues, ReportEachFailedWayIfGpuMemoryIsRequired) {
  HideGpuMemory();
  const Gpu gpu;
  EXPECT_THAT(
      WhyRefused({.gpu = &gpu, .placement = Placement::kGpu}),
      AllOf(
          HasSubstr("Cannot register 65536 bytes of queue memory of cuda:0 on mlx5_0: by dma-buf: the fake "
                    "driver refuses (CUDA_ERROR_NOT_SUPPORTED); by peer memory: "),
          HasSubstr("(CUDA_ERROR_NOT_SUPPORTED). Use memory of cudaMalloc() in the GPU's primary context, or "
                    "NVIDIA's open kernel modules on Linux 5.12 or later, which export dma-bufs.")));
}

TEST_F(GpuQueues, CannotBeInGpuMemoryIfTheHostTakesPart) {
  const std::string cannot = "Cannot place queues on mlx5_0 in GPU memory: ";
  EXPECT_EQ(WhyRefused({.placement = Placement::kGpu}),
            cannot + "EndpointConfig names no GPU. Set EndpointConfig::gpu to the GPU whose kernels post.");
  const Gpu gpu;
  SharedCompletions ring(device_, {.gpu = &gpu});
  EXPECT_EQ(
      WhyRefused({.completions = &ring, .gpu = &gpu, .placement = Placement::kGpu}),
      cannot + "the host takes part in delivering shared completions. Choose Placement::kProbe or kHost.");
  EXPECT_EQ(WhyRefused({.gpu = &gpu, .placement = Placement::kGpu, .doorbell = DoorbellMode::kHostPosts}),
            cannot + "a host thread copies the WQEs. Choose Placement::kProbe or kHost.");
  for (const EndpointConfig& config : {EndpointConfig{.completions = &ring, .gpu = &gpu},
                                       EndpointConfig{.gpu = &gpu, .doorbell = DoorbellMode::kHostPosts}}) {
    Link link(device_, config);
    EXPECT_FALSE(link.a.on_gpu());
    link.Connect();
    EXPECT_TRUE(link.Write(200).ok());
  }
}

TEST_F(GpuQueues, ShareCompletionsOnlyOnTheSameProcessor) {
  fake_cuda::Configure("gpus=2");
  const Gpu first(0), second(1), again(0);
  SharedCompletions of_cpu(device_, {}), of_first(device_, {.gpu = &first});
  const auto refusal = [](const std::string& posters, const std::string& of_ring) {
    return "Cannot create an endpoint on shared completions: " + posters + " post to it, but " + of_ring +
           " to the ring's queues, and only threads of one processor share the ring's lock. Create a ring "
           "for "
           "each processor: SharedCompletionsConfig::gpu.";
  };
  EXPECT_EQ(WhyRefused({.completions = &of_first, .gpu = &second}),
            refusal("kernels of cuda:1", "kernels of cuda:0"));
  EXPECT_EQ(WhyRefused({.completions = &of_first}), refusal("threads of the CPU", "kernels of cuda:0"));
  EXPECT_EQ(WhyRefused({.completions = &of_cpu, .gpu = &first}),
            refusal("kernels of cuda:0", "threads of the CPU"));
  EXPECT_EQ(WhyRefused({.completions = &of_first, .gpu = &again}), kAccepted);
}

TEST_F(GpuQueues, DumpAfterReadsIfTheGpuDoesNotOrderNicWrites) {
  for (const Placement placement : {Placement::kHost, Placement::kGpu}) {
    fake_cuda::Configure("writes_ordering=0");
    const Gpu gpu;
    const Endpoint by_itself(device_, {.gpu = &gpu, .placement = placement});
    const uint32_t scope = by_itself.on_gpu() ? 0 : uint32_t{device::kNeedsSystemScope};
    EXPECT_EQ(by_itself.View().flags, device::kDumpAfterRead | scope);
    EXPECT_THAT(by_itself.Describe(), HasSubstr("are ordered for no kernels, so a DUMP follows each read; "));
    const Endpoint asked(device_, {.dump_after_read = false, .gpu = &gpu, .placement = placement});
    EXPECT_EQ(asked.View().flags, scope);
  }
  fake_cuda::Configure("writes_ordering=100");
  const Gpu gpu;
  EXPECT_EQ(Endpoint(device_, {.gpu = &gpu}).View().flags, 0);
}

TEST_F(GpuQueues, ReportEveryFailedCallWithoutLeaks) {
  for (const Placement placement : {Placement::kProbe, Placement::kHost, Placement::kGpu}) {
    EXPECT_GT(ForEachFailure([&] {
                const Gpu gpu;
                Endpoint endpoint(device_, {.receive_depth = 4, .gpu = &gpu, .placement = placement});
                endpoint.LastError();
                endpoint.Reset();
              }),
              15);
  }
}

class GpuTraffic : public WithGpu, public testing::WithParamInterface<CqMode> {
 protected:
  EndpointConfig Config() const {
    return {
        .depth = 8, .cq_mode = GetParam(), .receive_depth = 4, .gpu = &gpu_, .placement = Placement::kGpu};
  }

  /// Waits until the peer has refused a write.
  void FailLink() {
    {
      const fake_cuda::Kernel kernel;
      link_.PostWrongWrite();
    }
    ASSERT_TRUE(Await([&] { return link_.a.LastError().has_value(); }));
  }

  Gpu gpu_;
  Link link_{device_, Config(), Config()};
};

INSTANTIATE_TEST_SUITE_P(EachCqMode, GpuTraffic, testing::Values(CqMode::kCollapsed, CqMode::kRing),
                         [](const auto& mode) { return mode.param == CqMode::kRing ? "Ring" : "Collapsed"; });

TEST_P(GpuTraffic, CarriesAllDataPastTheEndOfTheQueue) {
  link_.Connect();
  EXPECT_TRUE(Write(link_, 200).ok());
  EXPECT_EQ(link_.a.State(), mlx5::QpState::kRts);
  EXPECT_FALSE(link_.a.LastError().has_value());
}

TEST_P(GpuTraffic, ReportsAnErrorThatNoPosterHasSeen) {
  link_.Connect();
  ASSERT_TRUE(Write(link_, 2).ok());
  FailLink();
  const std::optional<QueueError> error = link_.a.LastError();
  EXPECT_EQ(error->syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
  EXPECT_EQ(error->wqe_index, 2);
  EXPECT_EQ(error->cq_mode, GetParam());
}

TEST_P(GpuTraffic, WorksAfterAReset) {
  for (uint32_t cycle = 0; cycle < 5; ++cycle) {
    link_.Connect();
    ASSERT_TRUE(Write(link_, 3 + cycle).ok()) << "cycle " << cycle;
    if (cycle % 2 == 0) FailLink();
    link_.a.Reset();
    link_.b.Reset();
    EXPECT_FALSE(link_.a.LastError().has_value());
  }
}

TEST_P(GpuTraffic, PutsAllowedRegionsWhereKernelsReachThem) {
  const MemoryView local[] = {link_.source.region.View()}, remote[] = {link_.target.region.View()};
  link_.a.AllowRegions(local, remote);
  const fake_cuda::Kernel kernel;
  const device::RegionTable* const table = link_.a.View().control->regions;
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(link_.a.ReceiveView().regions, table);
  EXPECT_EQ(table->count, 2);
}

TEST_P(GpuTraffic, ReceivesBeforeAndAfterAReset) {
  for (uint64_t cycle = 1; cycle <= 3; ++cycle) {
    link_.Connect();
    {
      const fake_cuda::Kernel kernel;
      device::ReceiveQueue<Cpu> receives(link_.b.ReceiveView());
      ASSERT_TRUE(receives.Post(link_.target.Local(0)).ok());
      receives.Submit();
      Set(link_.source[0], cycle);
      Queue queue(link_.a.View());
      ASSERT_TRUE(queue.Post(device::Send(link_.source.Local(0)), Within()).status.ok());
      EXPECT_TRUE(receives.Poll(Within()).status.ok());
      EXPECT_EQ(Cpu::Load(&link_.target[0]), cycle);
    }
    link_.a.Reset();
    link_.b.Reset();
  }
}

}  // namespace
}  // namespace warpverbs::host
