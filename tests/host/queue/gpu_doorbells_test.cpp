#include "host/gpu/gpu_fixture.hpp"
#include "queue/doorbell_choice.hpp"
#include "warpverbs/host/gpu.hpp"

/// How a GPU's doorbells are rung, depending on whether the NIC's register can be mapped, as I/O or plain
/// memory.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

constexpr char kRefused[] =
    "as I/O memory: the fake driver refuses (CUDA_ERROR_NOT_PERMITTED); as plain memory: the fake driver "
    "refuses "
    "(CUDA_ERROR_INVALID_VALUE)";

using GpuDoorbells = WithGpu;

TEST_F(GpuDoorbells, AreRungByTheGpuIfTheRegisterMapsAsIoMemory) {
  fake_cuda::Configure("uar_io=1");
  const Gpu gpu;
  const Endpoint endpoint(device_, {.gpu = &gpu});
  EXPECT_EQ(endpoint.doorbell_mode(), DoorbellMode::kGpu);
  EXPECT_THAT(endpoint.Describe(), HasSubstr("rung by the poster (mapped for cuda:0 as I/O memory)"));
}

TEST_F(GpuDoorbells, AreRungByTheGpuIfTheRegisterIsPlainMemory) {
  const Gpu gpu;
  const Endpoint endpoint(device_, {.gpu = &gpu});
  EXPECT_EQ(endpoint.doorbell_mode(), DoorbellMode::kGpu);
  EXPECT_THAT(endpoint.Describe(), HasSubstr("rung by the poster (mapped for cuda:0 as plain memory)"));
}

TEST_F(GpuDoorbells, AreRungByTheHostIfTheRegisterCannotBeMapped) {
  fake_cuda::Configure("uar_plain=0");
  const Gpu gpu;
  Link link(device_, {.gpu = &gpu});
  EXPECT_EQ(link.a.doorbell_mode(), DoorbellMode::kHostProxy);
  EXPECT_THAT(
      link.a.Describe(),
      HasSubstr(std::string("rung by a host thread (cuda:0 cannot reach the register: ") + kRefused + ")"));
  link.Connect();
  EXPECT_TRUE(Write(link, 10).ok());
}

TEST_F(GpuDoorbells, RejectGpuModeIfTheRegisterCannotBeMapped) {
  fake_cuda::Configure("uar_plain=0");
  const Gpu gpu;
  EXPECT_EQ(WhyRefused({.gpu = &gpu, .doorbell = DoorbellMode::kGpu}),
            std::string("Cannot map the NIC's doorbell register for cuda:0: ") + kRefused +
                ". Run as root, load the nvidia module with NVreg_RegistryDwords=\"PeerMappingOverride=1;\", "
                "or let a "
                "host thread ring: DoorbellMode::kHostProxy.");
}

TEST_F(GpuDoorbells, MapNothingInHostMode) {
  const Gpu gpu;
  const Endpoint rings(device_, {.gpu = &gpu, .doorbell = DoorbellMode::kHostProxy});
  EXPECT_EQ(fake_cuda::Calls("cuMemHostRegister_v2"), rings.on_gpu() ? 1 : 2)
      << "the host's words, and queues in host memory";
}

TEST_F(GpuDoorbells, AreRungByTheGpuAtTheAddressThatItSees) {
  fake_cuda::Configure("same_address=0");
  const Gpu gpu;
  alignas(4096) static uint64_t page[512];
  const DoorbellChoice choice = ChooseDoorbell(DoorbellMode::kAuto, &gpu, &page[64]);
  EXPECT_EQ(choice.mode, DoorbellMode::kGpu);
  EXPECT_EQ(reinterpret_cast<uint64_t>(choice.doorbell),
            reinterpret_cast<uint64_t>(&page[64]) + (uint64_t{1} << 40));
}

TEST_F(GpuDoorbells, ShareTheMappingOfRegistersOnOnePage) {
  const Gpu gpu;
  alignas(4096) static uint64_t page[512];
  {
    const DoorbellChoice first = ChooseDoorbell(DoorbellMode::kGpu, &gpu, &page[0]);
    {
      const DoorbellChoice second = ChooseDoorbell(DoorbellMode::kGpu, &gpu, &page[64]);
      EXPECT_EQ(fake_cuda::HeldNow().registrations, 1);
    }
    EXPECT_EQ(fake_cuda::HeldNow().registrations, 1) << "the first still needs it";
  }
  EXPECT_EQ(fake_cuda::HeldNow().registrations, 0);
}

}  // namespace
}  // namespace warpverbs::host
