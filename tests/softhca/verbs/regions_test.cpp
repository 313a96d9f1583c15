// Memory regions that are registered again, the null region, and regions of memory on the card.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

/// Peer b registers a region again, and peer a writes to it.
class Reregistration : public TwoPeers {
 protected:
  Reregistration() {
    Connect();
    local.Put(0, "payload!");
  }
  int Change(int flags, Memory* memory = nullptr, ibv_pd* pd = nullptr, int access = 0) {
    return ibv_rereg_mr(region.get(), flags, pd, memory != nullptr ? memory->pointer() : nullptr,
                        memory != nullptr ? memory->size() : 0, access);
  }
  ibv_wc_status Write(const Memory& to, size_t offset = 0) {
    return Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(to.address() + offset, region->rkey).Run(a).status;
  }
  static std::string Text(const Memory& memory, size_t offset = 0) {
    return {reinterpret_cast<const char*>(memory.data() + offset), 8};
  }

  Memory first{4096}, second{8192};
  Mr region{ibv_reg_mr(b.pd.get(), first.pointer(), first.size(), kAllAccess)};
};

TEST_F(Reregistration, MovesARegionToOtherMemory) {
  ASSERT_EQ(Change(IBV_REREG_MR_CHANGE_TRANSLATION, &second), 0);
  EXPECT_EQ(region->length, second.size());
  EXPECT_EQ(Write(second, 8184), IBV_WC_SUCCESS);
  EXPECT_EQ(Text(second, 8184), "payload!");
  EXPECT_EQ(Write(first), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Reregistration, MovesARegionToAnotherProtectionDomain) {
  const Pd pd(ibv_alloc_pd(b.context));
  ASSERT_EQ(Write(first), IBV_WC_SUCCESS);
  ASSERT_EQ(Change(IBV_REREG_MR_CHANGE_PD, nullptr, pd.get()), 0);
  EXPECT_EQ(Write(first), IBV_WC_REM_ACCESS_ERR);
  ASSERT_EQ(Change(IBV_REREG_MR_CHANGE_PD, nullptr, b.pd.get()), 0);
  for (Peer* const peer : {&a, &b}) peer->To(IBV_QPS_RESET);
  Connect();
  EXPECT_EQ(Write(first), IBV_WC_SUCCESS);
}

TEST_F(Reregistration, FreesTheOldProtectionDomain) {
  ibv_pd* const old = ibv_alloc_pd(b.context);
  Memory memory(4096);
  const Mr moved(ibv_reg_mr(old, memory.pointer(), memory.size(), 0));
  EXPECT_EQ(ibv_dealloc_pd(old), EBUSY);
  EXPECT_EQ(ibv_rereg_mr(moved.get(), IBV_REREG_MR_CHANGE_PD, b.pd.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(old), 0);
}

TEST_F(Reregistration, ChangesTheAccess) {
  ASSERT_EQ(Change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(Work(IBV_WR_RDMA_READ, {local.Sge(0, 8)}).To(first.address(), region->rkey).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(Write(first), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Reregistration, ChangesAllAtOnce) {
  const Pd pd(ibv_alloc_pd(b.context));
  const Mr foreign(ibv_reg_mr(pd.get(), first.pointer(), 64, 0));
  ASSERT_EQ(
      ibv_rereg_mr(foreign.get(),
                   IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
                   b.pd.get(), second.pointer(), second.size(), kAllAccess),
      0);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(second.address(), foreign->rkey).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(Text(second), "payload!");
}

TEST_F(Reregistration, LeavesTheRegionAsItWasIfItIsRefused) {
  EXPECT_NE(Change(0), 0);
  EXPECT_NE(Change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, IBV_ACCESS_REMOTE_WRITE), 0);
  EXPECT_NE(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                         reinterpret_cast<void*>(uintptr_t{1} << 46), 4096, 0),
            0)
      << "the program has no such memory";
  EXPECT_EQ(Write(first), IBV_WC_SUCCESS);
  EXPECT_EQ(Text(first), "payload!");
}

/// A region that swallows what is written to it, and reads as zeros.
class NullRegion : public TwoPeers {
 protected:
  NullRegion() { Connect(); }

  ibv_sge Nothing(uint32_t bytes) const { return {0, bytes, null->lkey}; }

  Mr null{ibv_alloc_null_mr(a.pd.get())};
};

TEST_F(NullRegion, SendsZeros) {
  remote.Put(0, std::string(8192, 'x'));
  local.Put(0, "ends");
  EXPECT_EQ(
      Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 4), Nothing(5000), local.Sge(0, 4)}).To(remote).Run(a).status,
      IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(0, 5009), "ends" + std::string(5000, '\0') + "endsx");
}

TEST_F(NullRegion, SwallowsWhatIsReceived) {
  remote.Put(0, "skipped, kept");
  a.PostReceive({Nothing(9), local.Sge(0, 64)});
  EXPECT_EQ(Work(IBV_WR_SEND, {remote.Sge(0, 13)}).Run(b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(a.receive_cq.get()).byte_len, 13u);
  EXPECT_EQ(local.Text(0, 4), "kept");
}

TEST_F(NullRegion, SwallowsWhatIsRead) {
  remote.Put(3000, "tail");
  EXPECT_EQ(Work(IBV_WR_RDMA_READ, {Nothing(3000), local.Sge(0, 4)}).To(remote).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(0, 4), "tail");
}

TEST_F(NullRegion, TakesTheResultOfAnAtomic) {
  EXPECT_EQ(Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {Nothing(8)}).FetchAdd(remote, 0, 5).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(remote.As<uint64_t>(), 5u);
}

TEST_F(NullRegion, IsClosedToPeers) {
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {remote.Sge(0, 8)}).To(uint64_t{0}, null->lkey).Run(b).status,
            IBV_WC_REM_ACCESS_ERR);
}

using DeviceMemory = std::unique_ptr<ibv_dm, Destroy<ibv_free_dm>>;

DeviceMemory Allocate(ibv_context* context, size_t bytes, uint32_t log_alignment = 0) {
  ibv_alloc_dm_attr attributes{.length = bytes, .log_align_req = log_alignment, .comp_mask = 0};
  return DeviceMemory(ibv_alloc_dm(context, &attributes));
}

/// Memory on peer b's card, which peer a accesses.
class MemoryOnTheCard : public TwoPeers {
 protected:
  static constexpr int kZeroBased = kAllAccess | IBV_ACCESS_ZERO_BASED;

  MemoryOnTheCard() { Connect(); }

  Mr Register(uint64_t offset, size_t bytes, int access = kZeroBased) const {
    return Mr(ibv_reg_dm_mr(b.pd.get(), memory.get(), offset, bytes, static_cast<uint32_t>(access)));
  }
  void Put(uint64_t offset, const std::string& text) const {
    EXPECT_EQ(ibv_memcpy_to_dm(memory.get(), offset, text.data(), text.size()), 0);
  }
  std::string Text(uint64_t offset, size_t bytes) const {
    std::string text(bytes, '?');
    EXPECT_EQ(ibv_memcpy_from_dm(text.data(), memory.get(), offset, bytes), 0);
    return text;
  }

  DeviceMemory memory = Allocate(context_b.get(), 8192);
};

TEST_F(MemoryOnTheCard, IsReadAndWrittenByTheProgram) {
  Put(0, "first of");
  Put(8184, "the last");
  EXPECT_EQ(Text(0, 8), "first of");
  EXPECT_EQ(Text(8184, 8), "the last");
  std::array<char, 8> bytes{};
  EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), memory.get(), 8188, 8), EFAULT);
  EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), memory.get(), 2, 8), EINVAL);
}

TEST_F(MemoryOnTheCard, IsWrittenAndReadByAPeer) {
  const Mr region = Register(4096, 4096);
  ASSERT_NE(region, nullptr);
  local.Put(0, "payload!");
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(uint64_t{4088}, region->rkey).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(Text(8184, 8), "payload!") << "address 0 is the region's first byte";
  Put(4096, "answered");
  EXPECT_EQ(Work(IBV_WR_RDMA_READ, {local.Sge(64, 8)}).To(uint64_t{0}, region->rkey).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(64, 8), "answered");
}

TEST_F(MemoryOnTheCard, IsTheTargetOfAtomics) {
  const Mr region = Register(0, 64);
  EXPECT_EQ(Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)})
                .FetchAdd(uint64_t{8}, region->rkey, 5)
                .Run(a)
                .status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(Work(IBV_WR_ATOMIC_CMP_AND_SWP, {local.Sge(8, 8)})
                .CompareSwap(uint64_t{8}, region->rkey, 5, 9)
                .Run(a)
                .status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(local.As<uint64_t>(8), 5u);
  uint64_t value = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&value, memory.get(), 8, sizeof value), 0);
  EXPECT_EQ(value, 9u);
}

TEST_F(MemoryOnTheCard, SendsAndReceives) {
  const Mr region = Register(0, 8192);
  Put(16, "from the card...");
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {{16, 16, region->lkey}}).To(local).Run(b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(0, 16), "from the card...");
  b.PostReceive({{4096, 64, region->lkey}});
  local.Put(0, "to the card!");
  EXPECT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 12)}).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Text(4096, 12), "to the card!");
}

TEST_F(MemoryOnTheCard, IsBoundedByItsRegion) {
  const Mr region = Register(0, 64);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(uint64_t{60}, region->rkey).Run(a).status,
            IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryOnTheCard, ChecksTheRightsOfItsRegion) {
  const Mr region = Register(0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(Work(IBV_WR_RDMA_READ, {local.Sge(0, 8)}).To(uint64_t{0}, region->rkey).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(uint64_t{0}, region->rkey).Run(a).status,
            IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryOnTheCard, RefusesRegionsThatItCannotHave) {
  EXPECT_EQ(Register(0, 64, kAllAccess), nullptr) << "regions are zero-based";
  EXPECT_EQ(Register(0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE), nullptr) << "no local write";
  EXPECT_EQ(Register(8192, 4), nullptr);
  EXPECT_EQ(Register(4096, 4100), nullptr);
  const Mr region = Register(0, 64);
  EXPECT_NE(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_PD, b.pd.get(), nullptr, 0, 0), 0);
}

TEST_F(MemoryOnTheCard, IsNotFreedBelowARegion) {
  Mr region = Register(0, 64);
  EXPECT_EQ(ibv_free_dm(memory.get()), EBUSY);
  region.reset();
  EXPECT_EQ(ibv_free_dm(memory.release()), 0);
}

TEST_F(MemoryOnTheCard, IsLimited) {
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(context_b.get(), nullptr, &attributes), 0);
  ASSERT_GT(attributes.max_dm_size, 8192u);
  EXPECT_EQ(Allocate(context_b.get(), attributes.max_dm_size + 1), nullptr);
  EXPECT_EQ(Allocate(context_b.get(), 0), nullptr);
  EXPECT_EQ(Allocate(context_b.get(), attributes.max_dm_size), nullptr) << "8 KiB are taken";
  memory.reset();
  memory = Allocate(context_b.get(), attributes.max_dm_size);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(Allocate(context_b.get(), 4), nullptr);
  memory.reset();
  std::vector<DeviceMemory> pieces;
  for (int i = 0; i < 300; ++i) {
    pieces.push_back(Allocate(context_b.get(), 8, 6));
    ASSERT_NE(pieces.back(), nullptr) << i;
    ASSERT_EQ(ibv_memcpy_to_dm(pieces.back().get(), 4, &i, sizeof i), 0);
  }
  for (int i = 0; i < 300; ++i) {
    int value = -1;
    ASSERT_EQ(ibv_memcpy_from_dm(&value, pieces[static_cast<size_t>(i)].get(), 4, sizeof value), 0);
    EXPECT_EQ(value, i);
  }
}

TEST_F(MemoryOnTheCard, IsZeroWhenItIsAllocatedAgain) {
  Put(0, "left by the last");
  memory.reset();
  memory = Allocate(context_b.get(), 8192, 12);
  EXPECT_EQ(Text(0, 16), std::string(16, '\0'));
}

TEST_F(MemoryOnTheCard, IsImported) {
  Put(0, "imports!");
  ibv_dm* const imported = ibv_import_dm(context_b.get(), memory->handle);
  ASSERT_NE(imported, nullptr);
  std::array<char, 8> bytes{};
  EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), imported, 0, bytes.size()), 0);
  EXPECT_EQ(std::string(bytes.data(), bytes.size()), "imports!");
  ibv_unimport_dm(imported);
}

TEST_F(MemoryOnTheCard, HasNoOperations) {
  errno = 0;
  EXPECT_EQ(mlx5dv_dm_map_op_addr(memory.get(), 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(MemoryOnTheCard, IsNotMadeForSteering) {
  ibv_alloc_dm_attr attributes{.length = 4096, .log_align_req = 0, .comp_mask = 0};
  mlx5dv_alloc_dm_attr type{.type = MLX5DV_DM_TYPE_STEERING_SW_ICM, .comp_mask = 0};
  errno = 0;
  EXPECT_EQ(mlx5dv_alloc_dm(context_b.get(), &attributes, &type), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbs
