// Memory keys that are made of parts of others (mlx5dv_create_mkey), and the work requests that make them.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <vector>

#include "verbs/peer.hpp"

namespace verbs {
namespace {

using IndirectKey = std::unique_ptr<mlx5dv_mkey, Destroy<mlx5dv_destroy_mkey>>;

constexpr uint32_t kChangesAndReads =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Peer b makes indirect keys of its buffer `remote`; peer a uses them.
class KeysByWorkRequests : public TwoPeers {
 protected:
  KeysByWorkRequests() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = b.send_cq.get();
    init.recv_cq = b.receive_cq.get();
    init.qp_type = IBV_QPT_RC;
    init.cap = {
        .max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 512};
    init.pd = b.pd.get();
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_LOCAL_INV;
    mlx5dv_qp_init_attr extra{};
    extra.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
    extra.send_ops_flags =
        MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;
    b.qp.reset(mlx5dv_create_qp(context_b.get(), &init, &extra));
    if (b.qp == nullptr) throw std::runtime_error("the queue pair cannot be created");
    ex = ibv_qp_to_qp_ex(b.qp.get());
    dv = mlx5dv_qp_ex_from_ibv_qp_ex(ex);
    Connect();
    key = Create(b.pd.get());
  }
  static IndirectKey Create(ibv_pd* pd, uint16_t entries = 8, uint32_t flags = 0) {
    mlx5dv_mkey_init_attr init{};
    init.pd = pd;
    init.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | flags;
    init.max_entries = entries;
    IndirectKey made(mlx5dv_create_mkey(&init));
    if (made == nullptr) throw std::runtime_error("the key cannot be created");
    return made;
  }
  /// Posts one extended work request of peer b.
  template <class Post>
  ibv_wc_status Run(Post post) {
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    post();
    Publish(b.qp.get());
    EXPECT_EQ(ibv_wr_complete(ex), 0);
    return Wait(b.send_cq.get()).status;
  }
  ibv_wc_status SetList(std::vector<ibv_sge> pieces, uint32_t access = kChangesAndReads) {
    return Run([&] {
      mlx5dv_wr_mr_list(dv, key.get(), access, static_cast<uint16_t>(pieces.size()), pieces.data());
    });
  }
  ibv_wc_status SetInterleaved(uint32_t repetitions, std::vector<mlx5dv_mr_interleaved> pieces) {
    return Run([&] {
      mlx5dv_wr_mr_interleaved(dv, key.get(), kChangesAndReads, repetitions,
                               static_cast<uint16_t>(pieces.size()), pieces.data());
    });
  }
  mlx5dv_mr_interleaved Column(size_t offset, uint32_t bytes, uint32_t skip) {
    return {remote.Address(offset), bytes, skip, remote.mr()->lkey};
  }
  ibv_wc_status Write(uint64_t address, uint32_t bytes) {
    return Work(IBV_WR_RDMA_WRITE, {local.Sge(0, bytes)}).To(address, key->rkey).Run(a).status;
  }
  ibv_wc_status Read(uint64_t address, size_t to, uint32_t bytes) {
    return Work(IBV_WR_RDMA_READ, {local.Sge(to, bytes)}).To(address, key->rkey).Run(a).status;
  }
  void Reconnect() {
    for (Peer* const peer : {&a, &b}) peer->To(IBV_QPS_RESET);
    Connect();
  }

  ibv_qp_ex* ex = nullptr;
  mlx5dv_qp_ex* dv = nullptr;
  IndirectKey key;
};

TEST_F(KeysByWorkRequests, WriteToAListOfPieces) {
  ASSERT_EQ(SetList({remote.Sge(1000, 3), remote.Sge(0, 2), remote.Sge(5000, 64)}), IBV_WC_SUCCESS);
  local.Put(0, "abcdefgh");
  EXPECT_EQ(Write(0, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(1000, 4), std::string("abc\0", 4));
  EXPECT_EQ(remote.Text(0, 3), std::string("de\0", 3));
  EXPECT_EQ(remote.Text(5000, 3), "fgh");
  EXPECT_EQ(Write(4, 2), IBV_WC_SUCCESS) << "from the middle of a piece";
  EXPECT_EQ(remote.Text(1, 1) + remote.Text(5000, 3), "abgh");
}

TEST_F(KeysByWorkRequests, ReadAListOfPieces) {
  remote.Put(100, "second");
  remote.Put(200, "first ");
  ASSERT_EQ(SetList({remote.Sge(200, 6), remote.Sge(100, 6)}), IBV_WC_SUCCESS);
  EXPECT_EQ(Read(0, 64, 12), IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(64, 12), "first second");
}

TEST_F(KeysByWorkRequests, TakeMessagesOfManyPackets) {
  ASSERT_EQ(SetList({remote.Sge(40000, 5000), remote.Sge(10000, 5000)}), IBV_WC_SUCCESS);
  for (size_t i = 0; i < 10000; ++i) local[i] = static_cast<uint8_t>(i * 7 + i / 256);
  EXPECT_EQ(Write(0, 10000), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(40000, 5000), local.Text(0, 5000));
  EXPECT_EQ(remote.Text(10000, 5000), local.Text(5000, 5000));
  EXPECT_EQ(Read(0, 20000, 10000), IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(20000, 10000), local.Text(0, 10000));
}

TEST_F(KeysByWorkRequests, RepeatPiecesAtAStride) {
  ASSERT_EQ(SetInterleaved(3, {Column(0, 2, 6), Column(1024, 1, 9)}), IBV_WC_SUCCESS);
  local.Put(0, "aaAbbBccC");
  EXPECT_EQ(Write(0, 9), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(0, 18), std::string("aa\0\0\0\0\0\0bb\0\0\0\0\0\0cc", 18));
  EXPECT_EQ(remote.Text(1024, 21), std::string("A\0\0\0\0\0\0\0\0\0B\0\0\0\0\0\0\0\0\0C", 21));
  EXPECT_EQ(Read(4, 64, 4), IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(64, 4), "bBcc");
  EXPECT_EQ(Read(0, 64, 10), IBV_WC_REM_ACCESS_ERR) << "beyond the last repetition";
}

TEST_F(KeysByWorkRequests, GatherAndScatterLocally) {
  ASSERT_EQ(SetInterleaved(4, {Column(0, 1, 3)}), IBV_WC_SUCCESS);
  remote.Put(0, "w...x...y...z...");
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {{0, 4, key->lkey}}).To(local, 128).Run(b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(local.Text(128, 4), "wxyz");
  b.PostReceive({{1, 3, key->lkey}});
  local.Put(0, "XYZ");
  EXPECT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 3)}).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(0, 16), "w...X...Y...Z...");
  local.Put(256, "pqrs");
  EXPECT_EQ(Work(IBV_WR_RDMA_READ, {{0, 4, key->lkey}}).To(local, 256).Run(b).status, IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(0, 16), "p...q...r...s...");
}

TEST_F(KeysByWorkRequests, TakeAtomicsOnAWholeWord) {
  ASSERT_EQ(SetList({remote.Sge(64, 8), remote.Sge(128, 4), remote.Sge(192, 4)}), IBV_WC_SUCCESS);
  EXPECT_EQ(
      Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)}).FetchAdd(uint64_t{0}, key->rkey, 5).Run(a).status,
      IBV_WC_SUCCESS);
  EXPECT_EQ(remote.As<uint64_t>(64), 5u);
  EXPECT_EQ(
      Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)}).FetchAdd(uint64_t{8}, key->rkey, 5).Run(a).status,
      IBV_WC_REM_ACCESS_ERR)
      << "two pieces";
}

TEST_F(KeysByWorkRequests, AreSetFieldByField) {
  ASSERT_EQ(Run([&] {
              mlx5dv_mkey_conf_attr attributes{};
              const ibv_sge piece = remote.Sge(300, 8);
              mlx5dv_wr_mkey_configure(dv, key.get(), 2, &attributes);
              mlx5dv_wr_set_mkey_access_flags(dv, IBV_ACCESS_REMOTE_READ);
              mlx5dv_wr_set_mkey_layout_list(dv, 1, &piece);
            }),
            IBV_WC_SUCCESS);
  remote.Put(300, "readable");
  EXPECT_EQ(Read(0, 0, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR);
  Reconnect();
  ASSERT_EQ(Run([&] {
              mlx5dv_mkey_conf_attr attributes{};
              mlx5dv_wr_mkey_configure(dv, key.get(), 1, &attributes);
              mlx5dv_wr_set_mkey_access_flags(dv, kChangesAndReads);
            }),
            IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 8), IBV_WC_SUCCESS) << "the layout has stayed";
  ASSERT_EQ(Run([&] {
              mlx5dv_mkey_conf_attr attributes{};
              const mlx5dv_mr_interleaved piece = Column(400, 4, 4);
              mlx5dv_wr_mkey_configure(dv, key.get(), 1, &attributes);
              mlx5dv_wr_set_mkey_layout_interleaved(dv, 2, 1, &piece);
            }),
            IBV_WC_SUCCESS);
  local.Put(0, "newplace");
  EXPECT_EQ(Write(0, 8), IBV_WC_SUCCESS) << "the access has stayed";
  EXPECT_EQ(remote.Text(400, 4) + remote.Text(408, 4), "newplace");
}

TEST_F(KeysByWorkRequests, AreClosedUntilTheyAreSet) { EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR); }

TEST_F(KeysByWorkRequests, EndAtTheirLength) {
  ASSERT_EQ(SetList({remote.Sge(0, 4), remote.Sge(64, 4)}), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(1, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(KeysByWorkRequests, AreInvalidatedLocally) {
  ASSERT_EQ(SetList({remote.Sge(0, 8)}), IBV_WC_SUCCESS);
  EXPECT_EQ(Run([&] { ibv_wr_local_inv(ex, key->rkey); }), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR);
  Reconnect();
  ASSERT_EQ(SetList({remote.Sge(8, 8)}), IBV_WC_SUCCESS) << "and can be set again";
  local.Put(0, "set over");
  EXPECT_EQ(Write(0, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(8, 8), "set over");
}

TEST_F(KeysByWorkRequests, AreInvalidatedByAPeerIfTheyAllowIt) {
  key = Create(b.pd.get(), 4, MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE);
  ASSERT_EQ(SetList({remote.Sge(0, 8)}), IBV_WC_SUCCESS);
  b.PostReceive({remote.Sge(64, 8)});
  EXPECT_EQ(Work(IBV_WR_SEND_WITH_INV, {local.Sge(0, 8)}).Invalidate(key->rkey).Run(a).status,
            IBV_WC_SUCCESS);
  EXPECT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(KeysByWorkRequests, RefuseInvalidationByAPeerOtherwise) {
  ASSERT_EQ(SetList({remote.Sge(0, 8)}), IBV_WC_SUCCESS);
  b.PostReceive({remote.Sge(64, 8)});
  EXPECT_EQ(Work(IBV_WR_SEND_WITH_INV, {local.Sge(0, 8)}).Invalidate(key->rkey).Run(a).status,
            IBV_WC_RETRY_EXC_ERR);
}

TEST_F(KeysByWorkRequests, FollowTheRegionsBehindThem) {
  std::unique_ptr<Buffer> behind = std::make_unique<Buffer>(b.pd.get(), 4096);
  ASSERT_EQ(SetList({remote.Sge(0, 8), behind->Sge(0, 8)}), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 16), IBV_WC_SUCCESS);
  behind.reset();
  EXPECT_EQ(Write(0, 8), IBV_WC_SUCCESS) << "the other piece is still there";
  EXPECT_EQ(Write(0, 16), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(KeysByWorkRequests, NeedLocalWriteOfARegionThatPeersChange) {
  Buffer readable(b.pd.get(), 4096, 0);
  ASSERT_EQ(SetList({readable.Sge(0, 8)}), IBV_WC_SUCCESS);
  EXPECT_EQ(Read(0, 0, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(KeysByWorkRequests, AreMadeOfIndirectKeys) {
  ASSERT_EQ(SetList({remote.Sge(100, 4), remote.Sge(200, 4)}), IBV_WC_SUCCESS);
  const IndirectKey inner = std::move(key);
  key = Create(b.pd.get());
  ASSERT_EQ(SetList({{2, 4, inner->lkey}, remote.Sge(300, 4)}), IBV_WC_SUCCESS);
  local.Put(0, "ab<>tail");
  EXPECT_EQ(Write(0, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(102, 2) + remote.Text(200, 2) + remote.Text(300, 4), "ab<>tail");
}

TEST_F(KeysByWorkRequests, ThatAreMadeOfThemselvesGiveNoAccess) {
  ASSERT_EQ(SetList({{0, 8, key->lkey}}), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(0, 8), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(KeysByWorkRequests, OfAnotherProtectionDomainCannotBeSet) {
  const Pd other(ibv_alloc_pd(context_b.get()));
  key = Create(other.get());
  EXPECT_EQ(SetList({remote.Sge(0, 8)}), IBV_WC_MW_BIND_ERR);
  key.reset();
}

TEST_F(KeysByWorkRequests, CannotBeSetIfTheyAreRegions) {
  IndirectKey own = std::move(key);
  mlx5dv_mkey region = *own;
  const uint32_t lkey = own->lkey;
  own->lkey = remote.mr()->lkey & ~0xffu;  // the key that the work request names
  key = std::move(own);
  EXPECT_EQ(SetList({remote.Sge(0, 8)}), IBV_WC_MW_BIND_ERR);
  key->lkey = lkey;
  EXPECT_EQ(region.lkey, lkey);
}

TEST_F(KeysByWorkRequests, KeepTheirProtectionDomain) {
  ibv_pd* const pd = ibv_alloc_pd(context_b.get());
  IndirectKey inside = Create(pd);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  inside.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(KeysByWorkRequests, HaveNeitherSignaturesNorEncryption) {
  for (const uint32_t flag : {uint32_t{MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE},
                              uint32_t{MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO}}) {
    mlx5dv_mkey_init_attr init{};
    init.pd = b.pd.get();
    init.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | flag;
    init.max_entries = 4;
    EXPECT_EQ(mlx5dv_create_mkey(&init), nullptr);
  }
}

}  // namespace
}  // namespace verbs
