// Memory windows of both types, and invalidation of their keys.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

using Window = std::unique_ptr<ibv_mw, Destroy<ibv_dealloc_mw>>;

constexpr uint64_t kOffset = 4096, kBytes = 512;  // the part of the region that is opened
constexpr unsigned kReadAndWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// Peer b has a region that only it may access, and opens parts of it to peer a.
class Windows : public TwoPeers {
 protected:
  explicit Windows(const PeerOptions& options = {}) : TwoPeers(0, options) { Connect(); }

  Window Alloc(ibv_mw_type type) {
    Window window(ibv_alloc_mw(b.pd.get(), type));
    if (window == nullptr) throw std::runtime_error("the window cannot be allocated");
    return window;
  }
  ibv_mw_bind_info Part(unsigned access = kReadAndWrite, uint64_t offset = kOffset, uint64_t bytes = kBytes) {
    return {region.mr(), region.Address(offset), bytes, access};
  }
  /// Binds a window and returns its completion.
  ibv_wc Bind(const Window& window, const ibv_mw_bind_info& info) {
    if (window->type == IBV_MW_TYPE_2) {
      const uint32_t key = ibv_inc_rkey(window->rkey);
      const ibv_wc wc = Work(IBV_WR_BIND_MW).Bind(window.get(), key, info).Id(7).Run(b);
      window->rkey = key;
      return wc;
    }
    ibv_mw_bind bind{.wr_id = 7, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    Publish(b.qp.get());
    EXPECT_EQ(ibv_bind_mw(b.qp.get(), window.get(), &bind), 0);
    return Wait(b.send_cq.get());
  }
  Work Write(uint64_t address, uint32_t key, uint32_t bytes = 8) {
    return Work(IBV_WR_RDMA_WRITE, {local.Sge(0, bytes)}).To(address, key);
  }
  ibv_wc_status WriteTo(const Window& window, uint64_t offset = kOffset, uint32_t bytes = 8) {
    return Write(region.Address(offset), window->rkey, bytes).Run(a).status;
  }
  ibv_wc_status Invalidate(uint32_t key) { return Work(IBV_WR_LOCAL_INV).Invalidate(key).Run(b).status; }
  void Reconnect() {
    for (Peer* const peer : {&a, &b}) peer->To(IBV_QPS_RESET);
    Connect();
  }

  Buffer region{b.pd.get(), 16384, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND};
};

class WindowsOfBothTypes : public Windows, public testing::WithParamInterface<ibv_mw_type> {
 protected:
  Window window = Alloc(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Types, WindowsOfBothTypes, testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2),
                         [](const auto& type) { return "Type" + std::to_string(type.param); });

TEST_P(WindowsOfBothTypes, OpensAPartOfARegion) {
  const ibv_wc wc = Bind(window, Part());
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(wc.wr_id, 7u);
  local.Put(0, "through!");
  EXPECT_EQ(WriteTo(window, kOffset + kBytes - 8), IBV_WC_SUCCESS);
  EXPECT_EQ(region.Text(kOffset + kBytes - 8, 8), "through!");
  region.Put(kOffset, "read me!");
  EXPECT_EQ(
      Work(IBV_WR_RDMA_READ, {local.Sge(64, 8)}).To(region.Address(kOffset), window->rkey).Run(a).status,
      IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(64, 8), "read me!");
}

TEST_P(WindowsOfBothTypes, EndsAtItsLastByte) {
  Bind(window, Part());
  EXPECT_EQ(WriteTo(window, kOffset + kBytes - 7), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsOfBothTypes, BeginsAtItsFirstByte) {
  Bind(window, Part());
  EXPECT_EQ(WriteTo(window, kOffset - 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsOfBothTypes, AllowsNothingBeforeItIsBound) {
  EXPECT_EQ(WriteTo(window), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsOfBothTypes, GrantsOnlyTheAccessThatItIsBoundWith) {
  Bind(window, Part(IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(WriteTo(window), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsOfBothTypes, GrantsAtomics) {
  Bind(window, Part(IBV_ACCESS_REMOTE_ATOMIC));
  region.As<uint64_t>(kOffset) = 40;
  const uint64_t address = region.Address(kOffset);
  Work add(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)});
  EXPECT_EQ(add.FetchAdd(address, window->rkey, 2).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(region.As<uint64_t>(kOffset), 42u);
}

TEST_P(WindowsOfBothTypes, TakesManyPackets) {
  Bind(window, Part(kReadAndWrite, 0, 10000));
  local.Put(9995, "last.");
  EXPECT_EQ(WriteTo(window, 0, 10000), IBV_WC_SUCCESS);
  EXPECT_EQ(region.Text(9995, 5), "last.");
}

TEST_P(WindowsOfBothTypes, ClosesWhenItIsDeallocated) {
  Bind(window, Part());
  ASSERT_EQ(WriteTo(window), IBV_WC_SUCCESS);
  const uint32_t key = window->rkey;
  window.reset();
  EXPECT_EQ(Write(region.Address(kOffset), key).Run(a).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_P(WindowsOfBothTypes, KeepsItsRegionRegistered) {
  const Buffer used(b.pd.get(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  EXPECT_EQ(Bind(window, {used.mr(), used.Address(), 4096, kReadAndWrite}).status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(used.mr()), EBUSY);
  EXPECT_EQ(Write(used.Address(), window->rkey).Run(a).status, IBV_WC_SUCCESS);
  window.reset();  // so that the region can go
}

TEST_P(WindowsOfBothTypes, KeepsItsProtectionDomainInUse) {
  ibv_pd* const pd = ibv_alloc_pd(b.context);
  Window user(ibv_alloc_mw(pd, GetParam()));
  ASSERT_NE(user, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  user.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_P(WindowsOfBothTypes, CannotBeBoundPastItsRegion) {
  EXPECT_EQ(Bind(window, Part(kReadAndWrite, 16384 - 8, 9)).status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_ERR);
}

TEST_P(WindowsOfBothTypes, CannotBeBoundByAQueuePairOfAnotherProtectionDomain) {
  const Pd pd(ibv_alloc_pd(b.context));
  const Buffer foreign(pd.get(), 4096);
  const Window beside(ibv_alloc_mw(pd.get(), GetParam()));
  EXPECT_EQ(Bind(beside, {foreign.mr(), foreign.Address(), 8, kReadAndWrite}).status, IBV_WC_MW_BIND_ERR);
}

TEST_P(WindowsOfBothTypes, GrantsWritesOnlyIfTheRegionAllowsThemLocally) {
  const Buffer constant(b.pd.get(), 4096, IBV_ACCESS_MW_BIND);
  EXPECT_EQ(Bind(window, {constant.mr(), constant.Address(), 8, IBV_ACCESS_REMOTE_READ}).status,
            IBV_WC_SUCCESS);
  const Window second = Alloc(GetParam());
  EXPECT_EQ(Bind(second, {constant.mr(), constant.Address(), 8, IBV_ACCESS_REMOTE_WRITE}).status,
            IBV_WC_MW_BIND_ERR);
  window.reset();  // before its region
}

TEST_F(Windows, OfType1MovesWhenItIsBoundAgain) {
  const Window window = Alloc(IBV_MW_TYPE_1);
  Bind(window, Part());
  const uint32_t old_key = window->rkey;
  EXPECT_EQ(Bind(window, Part(kReadAndWrite, 0, 64)).status, IBV_WC_SUCCESS);
  EXPECT_EQ(window->rkey >> 8, old_key >> 8);
  EXPECT_EQ(WriteTo(window, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(region.Address(), old_key).Run(a).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, OfType1ClosesWhenItIsBoundToNothing) {
  const Window window = Alloc(IBV_MW_TYPE_1);
  Bind(window, Part());
  EXPECT_EQ(Bind(window, Part(0, kOffset, 0)).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WriteTo(window), IBV_WC_REM_ACCESS_ERR);
}

// Linux counts the keys' low bytes (drivers/infiniband/hw/mlx5/mr.c, assign_mkey_variant()).
TEST_F(Windows, OfType2DifferInTheKeyByteBeforeARequestChoosesOne) {
  const Window first = Alloc(IBV_MW_TYPE_2), second = Alloc(IBV_MW_TYPE_2);
  EXPECT_NE(first->rkey & 0xff, second->rkey & 0xff);
}

TEST_F(Windows, OfType2TakesTheKeyByteOfTheRequest) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  const uint32_t key = (window->rkey & ~0xffu) | 0x5a;
  EXPECT_EQ(Work(IBV_WR_BIND_MW).Bind(window.get(), key, Part()).Run(b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Write(region.Address(kOffset), key).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Write(region.Address(kOffset), key + 1).Run(a).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, OfType2CountsFromZeroIfAsked) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  Bind(window, Part(kReadAndWrite | IBV_ACCESS_ZERO_BASED));
  local.Put(0, "zero");
  EXPECT_EQ(Write(16, window->rkey, 4).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(region.Text(kOffset + 16, 4), "zero");
  EXPECT_EQ(Write(kBytes - 3, window->rkey, 4).Run(a).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, OfType2CannotBeBoundToARegionOfAnotherProtectionDomain) {  // libibverbs refuses type 1
  const Pd pd(ibv_alloc_pd(b.context));
  const Buffer foreign(pd.get(), 4096);
  const Window window = Alloc(IBV_MW_TYPE_2);
  EXPECT_EQ(Bind(window, {foreign.mr(), foreign.Address(), 8, kReadAndWrite}).status, IBV_WC_MW_BIND_ERR);
}

TEST_F(Windows, OfType2CannotBeBoundTwice) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  Bind(window, Part());
  EXPECT_EQ(Bind(window, Part()).status, IBV_WC_MW_BIND_ERR);
}

/// Peer d reaches queue pair c, which shares the protection domain of b.
class WindowOfAnotherQueuePair : public WindowsOfBothTypes {
 protected:
  WindowOfAnotherQueuePair() {
    ibv_qp_init_attr init{};
    init.send_cq = c.send_cq.get();
    init.recv_cq = c.receive_cq.get();
    init.qp_type = IBV_QPT_RC;
    init.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    c.qp.reset(ibv_create_qp(b.pd.get(), &init));
    c.Connect(d);
    d.Connect(c);
  }

  Peer c{b.context}, d{a.context};
  Buffer source{d.pd.get(), 64};
};
INSTANTIATE_TEST_SUITE_P(Types, WindowOfAnotherQueuePair, testing::Values(IBV_MW_TYPE_1, IBV_MW_TYPE_2),
                         [](const auto& type) { return "Type" + std::to_string(type.param); });

TEST_P(WindowOfAnotherQueuePair, ServesItOnlyIfItIsOfType1) {
  Bind(window, Part());
  const ibv_wc wc =
      Work(IBV_WR_RDMA_WRITE, {source.Sge(0, 8)}).To(region.Address(kOffset), window->rkey).Run(d);
  EXPECT_EQ(wc.status, GetParam() == IBV_MW_TYPE_1 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(WriteTo(window), IBV_WC_SUCCESS);
}

TEST_P(WindowOfAnotherQueuePair, CannotBeInvalidatedByIt) {
  Bind(window, Part());
  EXPECT_EQ(Work(IBV_WR_LOCAL_INV).Invalidate(window->rkey).Run(c).status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(WriteTo(window), IBV_WC_SUCCESS);
}

TEST_F(Windows, LocalInvalidationClosesTheWindowUntilItIsBoundAgain) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  Bind(window, Part());
  const ibv_wc wc = Work(IBV_WR_LOCAL_INV).Invalidate(window->rkey).Id(3).Run(b);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(wc.wr_id, 3u);
  EXPECT_EQ(Bind(window, Part()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WriteTo(window), IBV_WC_SUCCESS);
  EXPECT_EQ(Invalidate(window->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(WriteTo(window), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, LocalInvalidationPrecedesARequestThatIsPostedAfterIt) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(Bind(window, Part()).status, IBV_WC_SUCCESS) << i;
    Work(IBV_WR_LOCAL_INV).Invalidate(window->rkey).Flags(0).Post(b);
    EXPECT_EQ(WriteTo(window), IBV_WC_REM_ACCESS_ERR) << i;
    Reconnect();
  }
}

TEST_F(Windows, LocalInvalidationRefusesWhatIsNoBoundWindowOfType2) {
  const Window bound = Alloc(IBV_MW_TYPE_2), unbound = Alloc(IBV_MW_TYPE_2), first = Alloc(IBV_MW_TYPE_1);
  Bind(bound, Part());
  Bind(first, Part());
  for (const uint32_t key : {region.rkey(), first->rkey, unbound->rkey, bound->rkey + 1}) {
    EXPECT_EQ(Invalidate(key), IBV_WC_MW_BIND_ERR) << key;
    Reconnect();
  }
  EXPECT_EQ(WriteTo(bound), IBV_WC_SUCCESS);
  EXPECT_EQ(Invalidate(bound->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(Invalidate(bound->rkey), IBV_WC_MW_BIND_ERR) << "it is free";
}

TEST_F(Windows, SendWithInvalidateClosesTheWindow) {
  for (const uint32_t bytes : {0u, 8u, 3000u}) {  // none, one and several packets
    const Window window = Alloc(IBV_MW_TYPE_2);
    Bind(window, Part());
    local.Put(bytes == 0 ? 0 : bytes - 1, "!");
    b.PostReceive({remote.Sge(0, 4096)}, 5);
    const ibv_wc sent = Work(IBV_WR_SEND_WITH_INV, {local.Sge(0, bytes)}).Invalidate(window->rkey).Run(a);
    EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
    EXPECT_EQ(sent.opcode, IBV_WC_SEND);
    const ibv_wc received = Wait(b.receive_cq.get());
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.wr_id, 5u);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(received.wc_flags & (IBV_WC_WITH_INV | IBV_WC_WITH_IMM), unsigned{IBV_WC_WITH_INV});
    EXPECT_EQ(received.invalidated_rkey, window->rkey);
    if (bytes != 0) {
      EXPECT_EQ(remote.Text(bytes - 1, 1), "!");
    }
    EXPECT_EQ(WriteTo(window), IBV_WC_REM_ACCESS_ERR);
    Reconnect();
    EXPECT_EQ(Bind(window, Part()).status, IBV_WC_SUCCESS) << "it is free";
    EXPECT_EQ(WriteTo(window), IBV_WC_SUCCESS);
  }
}

TEST_F(Windows, RefusedInvalidationFailsTheReceiverAndAnswersNothing) {
  const Window bound = Alloc(IBV_MW_TYPE_2), unbound = Alloc(IBV_MW_TYPE_2), first = Alloc(IBV_MW_TYPE_1);
  Bind(bound, Part());
  Bind(first, Part());
  for (const uint32_t key : {region.rkey(), first->rkey, unbound->rkey, bound->rkey + 1}) {
    b.PostReceive({remote.Sge(0, 64)});
    Work(IBV_WR_SEND_WITH_INV, {local.Sge(0, 8)}).Invalidate(key).Post(a);
    EXPECT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_WR_FLUSH_ERR) << key;
    EXPECT_EQ(b.State(), IBV_QPS_ERR);
    EXPECT_EQ(Wait(a.send_cq.get()).status, IBV_WC_RETRY_EXC_ERR) << key;
    for (Peer* const peer : {&a, &b}) peer->To(IBV_QPS_RESET);
    Connect({.timeout = 10}, {.timeout = 10});
  }
  EXPECT_EQ(WriteTo(bound), IBV_WC_SUCCESS);
}

TEST_F(Windows, AreAsManyAsTheDeviceReports) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(b.context, &attr), 0);
  EXPECT_EQ(attr.max_mw, 1 << 24);
  const unsigned flags =
      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
  EXPECT_EQ(attr.device_cap_flags & flags, flags);
  EXPECT_EQ(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0u);
}

TEST_F(Windows, HaveType1Or2) {
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(b.pd.get(), static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

/// The same by ibv_wr_*() and an extended completion queue.
class WindowsByWorkRequestApi : public Windows {
 protected:
  WindowsByWorkRequestApi() {
    for (Peer* const peer : {&a, &b}) {
      ibv_cq_init_attr_ex attr{};
      attr.cqe = 16;
      attr.wc_flags = IBV_WC_EX_WITH_IMM;  // of which an invalidated key takes the place
      auto& cq = peer == &a ? cq_a : cq_b;
      cq.reset(ibv_create_cq_ex(peer->context, &attr));
      ibv_qp_init_attr_ex init{};
      init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq.get());
      init.qp_type = IBV_QPT_RC;
      init.cap = {
          .max_send_wr = 8, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
      init.pd = peer->pd.get();
      init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      init.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV |
                            IBV_QP_EX_WITH_RDMA_WRITE;
      peer->qp.reset(ibv_create_qp_ex(peer->context, &init));
      if (peer->qp == nullptr) throw std::runtime_error("the queue pair cannot be created");
    }
    Connect();
  }
  ~WindowsByWorkRequestApi() override {
    a.qp.reset();
    b.qp.reset();
  }
  ibv_qp_ex* Start(Peer& peer) {
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(peer.qp.get());
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    return ex;
  }
  /// Posts, and waits until the completion is the current one of the queue.
  ibv_wc_status Complete(Peer& peer, ibv_cq_ex* cq) {
    Publish(peer.qp.get());
    EXPECT_EQ(ibv_wr_complete(ibv_qp_to_qp_ex(peer.qp.get())), 0);
    return Next(cq);
  }
  ibv_wc_status Next(ibv_cq_ex* cq) {
    ibv_poll_cq_attr attr{};
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    int found = ENOENT;
    while (found == ENOENT && std::chrono::steady_clock::now() < deadline) found = ibv_start_poll(cq, &attr);
    EXPECT_EQ(found, 0);
    if (found != 0) return IBV_WC_GENERAL_ERR;
    opcode = ibv_wc_read_opcode(cq);
    flags = ibv_wc_read_wc_flags(cq);
    invalidated = (flags & IBV_WC_WITH_INV) != 0 ? ibv_wc_read_invalidated_rkey(cq) : 0;
    const ibv_wc_status status = cq->status;
    ibv_end_poll(cq);
    Observe(ibv_cq_ex_to_cq(cq));
    return status;
  }

  struct DestroyCq {
    void operator()(ibv_cq_ex* cq) const { EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0); }
  };
  std::unique_ptr<ibv_cq_ex, DestroyCq> cq_a, cq_b;
  ibv_wc_opcode opcode{};
  unsigned flags = 0;
  uint32_t invalidated = 0;
};

TEST_F(WindowsByWorkRequestApi, BindAndInvalidate) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  const ibv_mw_bind_info info = Part();
  for (const uint32_t key : {ibv_inc_rkey(window->rkey), ibv_inc_rkey(ibv_inc_rkey(window->rkey))}) {
    ibv_wr_bind_mw(Start(b), window.get(), key, &info);
    EXPECT_EQ(Complete(b, cq_b.get()), IBV_WC_SUCCESS);
    EXPECT_EQ(opcode, IBV_WC_BIND_MW);
    ibv_qp_ex* const write = Start(a);
    ibv_wr_rdma_write(write, key, region.Address(kOffset));
    ibv_wr_set_sge(write, local.mr()->lkey, local.Address(), 8);
    EXPECT_EQ(Complete(a, cq_a.get()), IBV_WC_SUCCESS);
    ibv_wr_local_inv(Start(b), key);
    EXPECT_EQ(Complete(b, cq_b.get()), IBV_WC_SUCCESS);
    EXPECT_EQ(opcode, IBV_WC_LOCAL_INV);
  }
}

TEST_F(WindowsByWorkRequestApi, CompletionNamesTheInvalidatedKey) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  const ibv_mw_bind_info info = Part();
  const uint32_t key = ibv_inc_rkey(window->rkey);
  ibv_wr_bind_mw(Start(b), window.get(), key, &info);
  EXPECT_EQ(Complete(b, cq_b.get()), IBV_WC_SUCCESS);
  b.PostReceive({remote.Sge(0, 64)});
  ibv_qp_ex* const send = Start(a);
  ibv_wr_send_inv(send, key);
  ibv_wr_set_sge(send, local.mr()->lkey, local.Address(), 8);
  EXPECT_EQ(Complete(a, cq_a.get()), IBV_WC_SUCCESS);
  EXPECT_EQ(Next(cq_b.get()), IBV_WC_SUCCESS);
  EXPECT_EQ(opcode, IBV_WC_RECV);
  EXPECT_EQ(flags & IBV_WC_WITH_INV, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(invalidated, key);
}

class WindowsOfUnreliableConnections : public Windows {
 protected:
  WindowsOfUnreliableConnections() : Windows({.type = IBV_QPT_UC}) {}
};

TEST_F(WindowsOfUnreliableConnections, OpenAndCloseLocally) {
  const Window window = Alloc(IBV_MW_TYPE_2);
  EXPECT_EQ(Bind(window, Part()).status, IBV_WC_SUCCESS);
  b.PostReceive({});
  local.Put(0, "unsure");
  ASSERT_EQ(Work(IBV_WR_RDMA_WRITE_WITH_IMM, {local.Sge(0, 6)})
                .To(region.Address(kOffset), window->rkey)
                .Run(a)
                .status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(region.Text(kOffset, 6), "unsure");
  EXPECT_EQ(Invalidate(window->rkey), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbs
