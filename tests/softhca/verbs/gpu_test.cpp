#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "fake_cuda.hpp"
#include "verbs/devx.hpp"
#include "verbs/gpu_memory.hpp"
#include "verbs/gpu_region.hpp"
#include "verbs/peer.hpp"

namespace verbs {
namespace {

constexpr size_t kBytes = (1 << 20) + 64;

void Fill(Region& region, uint32_t seed) {
  constexpr size_t kPeriod = 255 * 256;
  uint8_t* const data = region.data();
  for (size_t i = 0; i < kPeriod; ++i) data[i] = static_cast<uint8_t>(i * 31 + i / 255 + seed);
  for (size_t i = kPeriod; i < kBytes; i += kPeriod)
    std::copy_n(data, std::min(kPeriod, kBytes - i), data + i);
}

/// Two connected queue pairs on one device.
class Gpu : public testing::Test {
 protected:
  Gpu() { Connect(); }
  void Connect() {
    a.Connect(b);
    b.Connect(a);
  }

  Context context = Open();
  Peer a{context.get()}, b{context.get()};
};

/// The places of source and target.
class GpuPlaces : public Gpu, public testing::WithParamInterface<std::tuple<int, int>> {
 protected:
  Region source{a.pd.get(), std::get<0>(GetParam()), kBytes};
  Region target{b.pd.get(), std::get<1>(GetParam()), kBytes};
};

std::string NamePlaces(const testing::TestParamInfo<std::tuple<int, int>>& info) {
  return std::string(NameOf(std::get<0>(info.param))) + "To" + NameOf(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(From, GpuPlaces,
                         testing::Combine(testing::Values(kHost, 0, 1), testing::Values(kHost, 0, 1)),
                         NamePlaces);

TEST_P(GpuPlaces, WritesArriveInEverySizeAndAlignment) {
  uint32_t seed = 0;
  for (const size_t bytes : {0ul, 1ul, 3ul, 4ul, 8ul, 9ul, 4095ul, 65536ul, 65537ul, 1048577ul}) {
    for (const size_t from : {0ul, 1ul, 8ul}) {
      const size_t to = 8 - from;
      Fill(source, ++seed);
      Fill(target, ++seed);
      std::vector<uint8_t> expected(target.data(), target.data() + kBytes);
      std::copy_n(source.data() + from, bytes, expected.begin() + static_cast<ptrdiff_t>(to));
      Work work(IBV_WR_RDMA_WRITE, {source.Sge(from, bytes)});
      ASSERT_EQ(work.To(target.address() + to, target.rkey()).Run(a).status, IBV_WC_SUCCESS) << bytes;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), target.data())) << bytes << " from " << from;
    }
  }
}

TEST_P(GpuPlaces, ReadsArriveInEverySizeAndAlignment) {
  uint32_t seed = 100;
  for (const size_t bytes : {1ul, 8ul, 4097ul, 1048575ul}) {
    Fill(source, ++seed);
    Fill(target, ++seed);
    std::vector<uint8_t> expected(source.data(), source.data() + kBytes);
    std::copy_n(target.data() + 5, bytes, expected.begin() + 3);
    Work work(IBV_WR_RDMA_READ, {source.Sge(3, bytes)});
    ASSERT_EQ(work.To(target.address() + 5, target.rkey()).Run(a).status, IBV_WC_SUCCESS) << bytes;
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), source.data())) << bytes;
  }
}

TEST_F(Gpu, ConcurrentAtomicsAddUp) {
  Region counter(b.pd.get(), 1, 8), results(a.pd.get(), 0, 64 * 8);
  for (size_t i = 0; i < 64; ++i) {
    Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {results.Sge(i * 8, 8)})
        .FetchAdd(counter.address(), counter.rkey(), 1)
        .Flags(i == 63 ? IBV_SEND_SIGNALED : 0)
        .Post(a);
  }
  ASSERT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(reinterpret_cast<uint64_t*>(results.data())[i], i);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(counter.data()), 64u);
}

TEST_F(Gpu, RegistersOnlyWholeAllocations) {
  const GpuMemory memory(0, 8192);
  EXPECT_EQ(ibv_reg_mr(a.pd.get(), memory.pointer(), 8193, kAllAccess), nullptr);
  EXPECT_EQ(errno, EFAULT);
  void* const hidden = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(ibv_reg_mr(a.pd.get(), hidden, 4096, kAllAccess), nullptr);
  EXPECT_EQ(errno, EFAULT);
  munmap(hidden, 4096);
}

TEST_F(Gpu, KeepsNoDriverObjectsAfterDeregistration) {
  const GpuMemory memory(0, 8192);
  const fake_cuda::Held before = fake_cuda::HeldNow();
  for (int i = 0; i < 3; ++i) {
    const Mr mr(ibv_reg_mr(a.pd.get(), memory.pointer(), 8192, kAllAccess));
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(fake_cuda::HeldNow().streams, before.streams + 1);
  }
  EXPECT_EQ(fake_cuda::HeldNow(), before);
  EXPECT_EQ(fake_cuda::ContextDepth(), 0u);
}

/// Memory that is freed while it is still registered.
class FreedMemory : public Gpu {
 protected:
  FreedMemory() { fake_cuda::Configure("gpus=2,gone_is_error=1"); }
  ~FreedMemory() override { fake_cuda::Configure("gpus=2"); }
};

TEST_F(FreedMemory, CausesALocalProtectionErrorAtTheRequester) {
  {
    Region source(a.pd.get(), 0, kBytes), target(b.pd.get(), 1, kBytes);
    source.Free();
    Work work(IBV_WR_RDMA_WRITE, {source.Sge(0, 64)});
    EXPECT_EQ(work.To(target.address(), target.rkey()).Run(a).status, IBV_WC_LOC_PROT_ERR);
  }
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
}

TEST_F(FreedMemory, CausesARemoteAccessErrorAtTheResponder) {
  Region source(a.pd.get(), 0, kBytes), target(b.pd.get(), 1, kBytes);
  target.Free();
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Work work(opcode, {source.Sge(0, 64)});
    EXPECT_EQ(work.To(target.address(), target.rkey()).Run(a).status, IBV_WC_REM_ACCESS_ERR);
    for (Peer* const end : {&a, &b}) end->To(IBV_QPS_RESET);
    Connect();
  }
  Work work(IBV_WR_ATOMIC_FETCH_AND_ADD, {source.Sge(0, 8)});
  EXPECT_EQ(work.FetchAdd(target.address(), target.rkey(), 1).Run(a).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FreedMemory, FailsBothEndsOfASend) {
  Region source(a.pd.get(), 0, kBytes), target(b.pd.get(), 1, kBytes);
  b.PostReceive({target.Sge(0, 64)}, 7);
  target.Free();
  EXPECT_EQ(Work(IBV_WR_SEND, {source.Sge(0, 64)}).Run(a).status, IBV_WC_REM_OP_ERR);
  const ibv_wc wc = Wait(b.receive_cq.get());
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(wc.wr_id, 7u);
}

TEST_F(Gpu, AnyDriverCallMayFailWithoutAHang) {
  bool all_failed_once = false;
  for (int nth = 1; nth < 200 && !all_failed_once; ++nth) {
    const fake_cuda::Held before = fake_cuda::HeldNow();
    {
      GpuMemory source(0, 4096), target(1, 4096);
      source.data()[9] = static_cast<uint8_t>(nth);
      fake_cuda::FailAnyCall(nth);
      const Mr from(ibv_reg_mr(a.pd.get(), source.pointer(), 4096, kAllAccess));
      const Mr to(ibv_reg_mr(b.pd.get(), target.pointer(), 4096, kAllAccess));
      if (from != nullptr && to != nullptr) {
        Work work(IBV_WR_RDMA_WRITE, {{source.address() + 1, 100, from->lkey}});
        const ibv_wc wc = work.To(target.address() + 1, to->rkey).Run(a);
        if (wc.status == IBV_WC_SUCCESS) {
          EXPECT_EQ(target.data()[9], static_cast<uint8_t>(nth));
        }
        all_failed_once = fake_cuda::FailurePending();
      }
      fake_cuda::FailAnyCall(0);
    }
    EXPECT_EQ(fake_cuda::HeldNow(), before) << nth;
    for (Peer* const end : {&a, &b}) end->To(IBV_QPS_RESET);
    Connect();
  }
  EXPECT_TRUE(all_failed_once);
}

TEST_F(Gpu, FailedTransfersFreeTheirStagingMemory) {
  constexpr size_t kPart = 64 << 10, kParts = 16;  // together all of the staging memory
  Region lost(b.pd.get(), 0, kPart), target(a.pd.get(), 1, kPart), source(b.pd.get(), kHost, kPart);
  std::iota(source.data(), source.data() + kPart, uint8_t{1});
  const auto read = [&](const Region& from) {
    return Work(IBV_WR_RDMA_READ, {target.Sge(0, kPart)}).To(from.address(), from.rkey()).Run(a).status;
  };
  fake_cuda::ResetGpu(0);
  for (size_t i = 0; i < kParts; ++i) {
    ASSERT_EQ(read(lost), IBV_WC_REM_ACCESS_ERR);
    for (Peer* const end : {&a, &b}) end->To(IBV_QPS_RESET);
    Connect();
  }
  ASSERT_EQ(read(source), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(source.data(), source.data() + kPart, target.data()));
}

TEST_F(Gpu, ResetFailsOnlyTransfersOfItsGpu) {
  Region source(a.pd.get(), kHost, kBytes), target(b.pd.get(), 0, kBytes), other(b.pd.get(), 1, kBytes);
  Fill(source, 1);
  const auto write = [&](Region& to) {
    return Work(IBV_WR_RDMA_WRITE, {source.Sge(1, 64)}).To(to.address() + 1, to.rkey()).Run(a).status;
  };
  ASSERT_EQ(write(target), IBV_WC_SUCCESS);
  fake_cuda::ResetGpu(0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(write(target), IBV_WC_REM_ACCESS_ERR);
    for (Peer* const end : {&a, &b}) end->To(IBV_QPS_RESET);
    Connect();
  }
  ASSERT_EQ(write(other), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(source.data() + 1, source.data() + 65, other.data() + 1));
}

TEST_F(Gpu, RegistersMappableExports) {
  const GpuMemory source(0, 8192), target(1, 8192);
  const int exports[] = {source.Export(8192), target.Export(8192)};
  const Mr from(ibv_reg_dmabuf_mr(a.pd.get(), 16, 4096, 16, exports[0], kAllAccess));
  const Mr to(ibv_reg_dmabuf_mr(b.pd.get(), 0, 8192, 0x10000, exports[1], kAllAccess));
  for (const int fd : exports) close(fd);
  ASSERT_NE(from, nullptr);
  ASSERT_NE(to, nullptr);
  source.data()[16] = 42;
  Work work(IBV_WR_RDMA_WRITE, {{16, 64, from->lkey}});
  ASSERT_EQ(work.To(0x10000 + 8100, to->rkey).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(target.data()[8100], 42);
}

TEST_F(Gpu, RefusesExportsThatCannotBeMapped) {
  const auto refusal = [&](int fd, uint64_t offset, size_t bytes) {
    EXPECT_EQ(ibv_reg_dmabuf_mr(a.pd.get(), offset, bytes, offset, fd, kAllAccess), nullptr);
    return errno;
  };
  const int event = eventfd(0, 0);
  EXPECT_EQ(refusal(event, 0, 4096), EOPNOTSUPP);
  close(event);
  EXPECT_EQ(refusal(event, 0, 4096), EBADF);
  const GpuMemory memory(0, 8192);
  const int fd = memory.Export(8192);
  EXPECT_EQ(refusal(fd, 4096, 4097), EINVAL);
  EXPECT_EQ(refusal(fd, 0, 0), EINVAL);
  EXPECT_EQ(ibv_reg_dmabuf_mr(a.pd.get(), 16, 64, 17, fd, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  close(fd);
}

TEST_F(Gpu, SaysThatItTakesNoDmaBufsOfTheDriver) {
  EXPECT_EQ(ibv_reg_dmabuf_mr(a.pd.get(), 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(GpuUmem, RegistersPagesOfAnExport) {
  const Context context = OpenDevx();
  const GpuMemory memory(0, 8192);
  mlx5dv_devx_umem_in in{};
  in.addr = reinterpret_cast<void*>(4096);
  in.size = 4096;
  in.access = IBV_ACCESS_LOCAL_WRITE;
  in.pgsz_bitmap = 4096;
  in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
  in.dmabuf_fd = memory.Export(8192);
  const Umem umem(mlx5dv_devx_umem_reg_ex(context.get(), &in));
  EXPECT_NE(umem, nullptr);
  in.size = 8192;
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(context.get(), &in), nullptr);
  EXPECT_EQ(errno, EINVAL);
  close(in.dmabuf_fd);
}

}  // namespace
}  // namespace verbs
