#include "host/gpu/gpu_failures.hpp"
#include "host/gpu/gpu_fixture.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/peer_table.hpp"

/// A table of peers that GPU kernels read.
namespace warpverbs::host {
namespace {

using device::PeerState;
using testing::HasSubstr;

using GpuPeerTableTest = WithGpu;

TEST_F(GpuPeerTableTest, AreReadByKernelsAtTheHostAddress) {
  const Gpu gpu;
  PeerTable peers(3, &gpu);
  EXPECT_EQ(fake_cuda::HeldNow().registrations, 1);
  Link link(device_, {.gpu = &gpu, .peers = &peers, .peer_rank = 2});
  link.Connect();
  const fake_cuda::Kernel kernel;
  const device::Peers<Cpu> seen(peers.View());
  EXPECT_TRUE(seen.Alive(2));
  EXPECT_FALSE(seen.Alive(1));
  ASSERT_TRUE(Write(link, 3).ok());
  link.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return link.a.LastError().has_value(); }));
  EXPECT_EQ(seen.State(2), PeerState::kFailed);
  link.a.Reset();
  EXPECT_EQ(seen.State(2), PeerState::kDisconnected);
}

TEST_F(GpuPeerTableTest, KeepTheirAddressWithoutTheGpuObject) {
  std::optional<PeerTable> peers;
  {
    const Gpu gpu;
    peers.emplace(70'000, &gpu);  // more than a GPU page
  }
  PeerTable::Attachment attachment(*peers, 69'999);
  attachment.Set(PeerState::kConnected);
  EXPECT_EQ(peers->State(69'999), PeerState::kConnected);
}

TEST_F(GpuPeerTableTest, AreRejectedIfTheGpuSeesAnotherAddress) {
  fake_cuda::Configure("same_address=0");
  const Gpu gpu;
  try {
    const PeerTable peers(3, &gpu);
    FAIL() << "it was created";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the GPU sees it at another address"));
  }
}

TEST_F(GpuPeerTableTest, LeakNothingIfACallFails) {
  EXPECT_GT(ForEachFailure([] {
              const Gpu gpu;
              PeerTable peers(3, &gpu);
              PeerTable::Attachment(peers, 1).Set(PeerState::kConnected);
            }),
            3);
}

}  // namespace
}  // namespace warpverbs::host
