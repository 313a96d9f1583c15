#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "verbs/peer.hpp"

/// Tests what is different on InfiniBand: LIDs, service levels, partitions, and datagrams without GRH.
namespace verbs {
namespace {

constexpr size_t kGrhBytes = sizeof(ibv_grh);

ibv_port_attr PortOf(ibv_context* context) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
  return port;
}

ibv_gid GidOf(ibv_context* context) {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  return gid;
}

/// Returns a path within the subnet.
ibv_ah_attr PathTo(uint16_t lid, uint8_t service_level = 0) {
  ibv_ah_attr path{};
  path.dlid = lid;
  path.sl = service_level;
  path.port_num = 1;
  return path;
}

ibv_ah_attr PathTo(uint16_t lid, const ibv_gid& gid) {
  ibv_ah_attr path = PathTo(lid);
  path.is_global = 1;
  path.grh.dgid = gid;
  path.grh.hop_limit = 1;
  return path;
}

TEST(InfiniBandPort, HasALidOfItsOwnInTheDefaultSubnet) {
  std::set<uint16_t> lids;
  for (const int device : {0, 1}) {
    const Context context = Open(device);
    const ibv_port_attr port = PortOf(context.get());
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
    EXPECT_EQ(port.lmc, 0);
    EXPECT_EQ(port.sm_lid, 1);
    EXPECT_GT(port.lid, port.sm_lid);
    EXPECT_LT(port.lid, 0xc000) << "a multicast LID";
    lids.insert(port.lid);
    constexpr uint8_t kDefaultPrefix[8] = {0xfe, 0x80};
    EXPECT_EQ(std::memcmp(GidOf(context.get()).raw, kDefaultPrefix, sizeof kDefaultPrefix), 0);
    __be16 pkey = 0;
    ASSERT_EQ(ibv_query_pkey(context.get(), 1, 0, &pkey), 0);
    EXPECT_EQ(be16toh(pkey), 0xffff);
    ASSERT_EQ(ibv_query_pkey(context.get(), 1, 1, &pkey), 0);
    EXPECT_EQ(be16toh(pkey), 0);
  }
  EXPECT_EQ(lids.size(), 2u);
}

/// A device each, with reliable connections that retry for a few milliseconds.
class LocalConnection : public TwoPeers {
 protected:
  LocalConnection() : TwoPeers(1) {}

  static Connection Impatient(const ibv_ah_attr& path) {
    Connection connection{.timeout = 1, .retries = 1};
    connection.path = path;
    return connection;
  }
  uint16_t LidOfA() const { return PortOf(context_a.get()).lid; }
  uint16_t LidOfB() const { return PortOf(context_b.get()).lid; }
  ibv_wc_status Write() { return Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Run(a).status; }
};

TEST_F(LocalConnection, WorksOnAnyServiceLevel) {
  for (const uint8_t level : {0, 7, 8, 15}) {
    Connection to_b, to_a;
    to_b.path = PathTo(LidOfB(), level);
    to_a.path = PathTo(LidOfA(), 3);
    Connect(to_b, to_a);
    EXPECT_EQ(Write(), IBV_WC_SUCCESS) << int{level};
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(a.qp.get(), &attr, IBV_QP_AV, &init), 0);
    EXPECT_EQ(attr.ah_attr.sl, level);
    EXPECT_EQ(attr.ah_attr.dlid, LidOfB());
    EXPECT_EQ(attr.ah_attr.is_global, 0);
    a.To(IBV_QPS_RESET);
    b.To(IBV_QPS_RESET);
  }
}

TEST_F(LocalConnection, WorksWithAGrh) {
  Connection to_b, to_a;
  to_b.path = PathTo(LidOfB(), GidOf(context_b.get()));
  to_a.path = PathTo(LidOfA(), GidOf(context_a.get()));
  Connect(to_b, to_a);
  EXPECT_EQ(Write(), IBV_WC_SUCCESS);
}

TEST_F(LocalConnection, FailsWhereNoPortHasTheLid) {
  Connect(Impatient(PathTo(0xbffe)));  // the last block of addresses, which launchers use last
  EXPECT_EQ(Write(), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(LocalConnection, FailsWithoutALid) {
  Connect(Impatient(PathTo(0, GidOf(context_b.get()))));
  EXPECT_EQ(Write(), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(LocalConnection, FailsWhereTheGrhNamesAnotherPort) {
  Connect(Impatient(PathTo(LidOfB(), GidOf(context_a.get()))));
  EXPECT_EQ(Write(), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(LocalConnection, FailsInAPartitionThatThePortIsNotIn) {
  Connection elsewhere = Impatient(PathTo(LidOfB()));
  elsewhere.pkey_index = 1;
  Connect(elsewhere);
  EXPECT_EQ(Write(), IBV_WC_RETRY_EXC_ERR);
}

class LocalDatagram : public TwoPeers {
 protected:
  LocalDatagram() : TwoPeers(1, {.type = IBV_QPT_UD}) { Connect(); }

  static AddressHandle HandleOf(const Peer& peer, ibv_ah_attr path) {
    return AddressHandle(ibv_create_ah(peer.pd.get(), &path));
  }
  /// Sends to `b`'s queue pair by a path, and returns the completion of its receive.
  ibv_wc SendBy(const ibv_ah_attr& path) {
    for (size_t i = 0; i < kGrhBytes; ++i) remote[i] = 0x5a;
    b.PostReceive({remote.Sge(0, 256)});
    local.Put(0, "question");
    EXPECT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 8)}).To(HandleOf(a, path), b.qp->qp_num).Run(a).status,
              IBV_WC_SUCCESS);
    const ibv_wc wc = Wait(b.receive_cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.byte_len, kGrhBytes + 8);
    EXPECT_EQ(wc.src_qp, a.qp->qp_num);
    EXPECT_EQ(wc.slid, PortOf(context_a.get()).lid);
    EXPECT_EQ(wc.sl, path.sl);
    EXPECT_EQ(wc.dlid_path_bits, 0);
    EXPECT_EQ(remote.Text(kGrhBytes, 8), "question");
    return wc;
  }
  /// Answers the sender of `b`'s receive.
  void Answer(ibv_wc wc) {
    a.PostReceive({local.Sge(0x1000, 256)});
    remote.Put(0x1000, "answer");
    const AddressHandle back(ibv_create_ah_from_wc(b.pd.get(), &wc, &remote.As<ibv_grh>(), 1));
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(Work(IBV_WR_SEND, {remote.Sge(0x1000, 6)}).To(back, wc.src_qp).Run(b).status, IBV_WC_SUCCESS);
    const ibv_wc answer = Wait(a.receive_cq.get());
    EXPECT_EQ(answer.status, IBV_WC_SUCCESS);
    EXPECT_EQ(answer.slid, PortOf(context_b.get()).lid);
    EXPECT_EQ(answer.sl, wc.sl);
    EXPECT_EQ(answer.wc_flags, wc.wc_flags);
    EXPECT_EQ(local.Text(0x1000 + kGrhBytes, 6), "answer");
  }
};

TEST_F(LocalDatagram, WithoutGrhNamesItsSourceByLid) {
  const ibv_wc wc = SendBy(PathTo(PortOf(context_b.get()).lid, uint8_t{11}));
  EXPECT_EQ(wc.wc_flags, 0u);
  EXPECT_EQ(remote.Text(0, kGrhBytes), std::string(kGrhBytes, 0x5a)) << "only reserved";
  Answer(wc);
}

TEST_F(LocalDatagram, WithGrhNamesBothPorts) {
  const ibv_gid source = GidOf(context_a.get()), destination = GidOf(context_b.get());
  const ibv_wc wc = SendBy(PathTo(PortOf(context_b.get()).lid, destination));
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_GRH});
  const ibv_grh& grh = remote.As<ibv_grh>();
  EXPECT_EQ(be32toh(grh.version_tclass_flow) >> 28, 6u);
  EXPECT_EQ(grh.next_hdr, 0x1b);
  EXPECT_EQ(be16toh(grh.paylen), 12 + 8 + 8 + 4) << "transport headers, payload and ICRC";
  EXPECT_EQ(std::memcmp(&grh.sgid, &source, sizeof source), 0);
  EXPECT_EQ(std::memcmp(&grh.dgid, &destination, sizeof destination), 0);
  Answer(wc);
}

TEST_F(LocalDatagram, ReachesTheMembersOfAGroup) {
  constexpr ibv_gid kGroup = {.raw = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 83, 7, 9}};
  constexpr uint16_t kLid = 0xc009;
  EXPECT_EQ(ibv_attach_mcast(b.qp.get(), &kGroup, PortOf(context_b.get()).lid), EINVAL);
  ASSERT_EQ(ibv_attach_mcast(b.qp.get(), &kGroup, kLid), 0);
  b.PostReceive({remote.Sge(0, 256)});
  local.Put(0, "to all");
  constexpr uint32_t kGroupQpn = 0xffffff;
  EXPECT_EQ(
      Work(IBV_WR_SEND, {local.Sge(0, 6)}).To(HandleOf(a, PathTo(kLid, kGroup)), kGroupQpn).Run(a).status,
      IBV_WC_SUCCESS);
  const ibv_wc wc = Wait(b.receive_cq.get());
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.slid, PortOf(context_a.get()).lid);
  EXPECT_EQ(remote.Text(kGrhBytes, 6), "to all");
  EXPECT_EQ(ibv_detach_mcast(b.qp.get(), &kGroup, kLid), 0);
}

}  // namespace
}  // namespace verbs
