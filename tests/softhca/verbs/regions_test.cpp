// Memory regions that are registered again, and the null region.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

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

}  // namespace
}  // namespace verbs
