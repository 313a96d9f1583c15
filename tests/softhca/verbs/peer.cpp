#include "verbs/peer.hpp"

#include <infiniband/mlx5dv.h>

#include <atomic>
#include <thread>

namespace verbs {
namespace {

constexpr uint8_t kPort = 1;

struct PortAddress {
  bool global;
  ibv_gid gid;
  int gid_index;
  uint16_t lid;
};

/// Returns the LID, or the first RoCE v2 GID on Ethernet.
PortAddress PortAddressOf(ibv_context* context) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(context, kPort, &port), 0);
  if (port.link_layer == IBV_LINK_LAYER_INFINIBAND) return {false, {}, 0, port.lid};
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, kPort, static_cast<uint32_t>(index), &entry, 0) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2) {
      return {true, entry.gid, index, 0};
    }
  }
  ADD_FAILURE() << "there is no RoCE v2 GID";
  return {};
}

/// Orders this thread's earlier accesses before a load of the record. Keeps the record's value.
void Release(__be32& record) { std::atomic_ref(record).fetch_add(0, std::memory_order_release); }

}  // namespace

Context Open(int device) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  Context context;
  if (device < count) context.reset(ibv_open_device(list[device]));
  ibv_free_device_list(list);
  if (context == nullptr) throw std::runtime_error("device " + std::to_string(device) + " does not open");
  return context;
}

void Publish(ibv_qp* qp) {
  mlx5dv_qp queues{};
  mlx5dv_obj object{};
  object.qp = {.in = qp, .out = &queues};
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
  for (int i = 0; i < 2; ++i) Release(queues.dbrec[i]);
}

void Publish(ibv_srq* srq) {
  mlx5dv_srq queue{};
  mlx5dv_obj object{};
  object.srq = {.in = srq, .out = &queue};
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ), 0);
  Release(*queue.dbrec);
}

void Observe(ibv_cq* cq) {
  mlx5dv_cq queue{};
  mlx5dv_obj object{};
  object.cq = {.in = cq, .out = &queue};
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
  const uint32_t slot = (be32toh(queue.dbrec[0]) - 1) & (queue.cqe_cnt - 1);
  uint8_t* const end = static_cast<uint8_t*>(queue.buf) + size_t{slot + 1} * queue.cqe_size;
  std::atomic_ref(*(reinterpret_cast<uint64_t*>(end) - 1)).load(std::memory_order_acquire);
}

ibv_wc Wait(ibv_cq* cq) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "no completion";
      wc.status = IBV_WC_GENERAL_ERR;
      return wc;
    }
    std::this_thread::yield();
  }
  Observe(cq);
  return wc;
}

Buffer::Buffer(ibv_pd* pd, size_t bytes, int access)
    : memory_(bytes), mr_(ibv_reg_mr(pd, memory_.pointer(), bytes, access)) {
  if (mr_ == nullptr) throw std::runtime_error("the memory does not register");
}

Peer::Peer(ibv_context* device, const PeerOptions& options)
    : context(device),
      pd(ibv_alloc_pd(device)),
      send_cq(ibv_create_cq(device, options.cqes, nullptr, options.channel, 0)),
      receive_cq(ibv_create_cq(device, options.cqes, nullptr, options.channel, 0)) {
  if (options.shared) {
    ibv_srq_init_attr shared{
        .srq_context = nullptr,
        .attr = {.max_wr = options.receive_depth, .max_sge = options.pieces, .srq_limit = 0}};
    srq.reset(ibv_create_srq(pd.get(), &shared));
  }
  ibv_qp_init_attr init{};
  init.send_cq = send_cq.get();
  init.recv_cq = receive_cq.get();
  init.srq = srq.get();
  init.qp_type = options.type;
  init.cap = {.max_send_wr = options.send_depth,
              .max_recv_wr = options.receive_depth,
              .max_send_sge = options.pieces,
              .max_recv_sge = options.pieces,
              .max_inline_data = options.inline_bytes};
  qp.reset(ibv_create_qp(pd.get(), &init));
  if (qp == nullptr) throw std::runtime_error("the queue pair cannot be created");
}

void Peer::Connect(const Peer& other, const Connection& connection) {
  ToInit(connection);
  ToRtr(other, connection);
  ToRts(connection);
}

void Peer::ToInit(const Connection& connection) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = kPort;
  attr.pkey_index = connection.pkey_index;
  attr.qp_access_flags = static_cast<unsigned>(connection.access);
  attr.qkey = connection.qkey;
  const int right = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | right), 0);
}

void Peer::ToRtr(const Peer& other, const Connection& connection) {
  const PortAddress here = PortAddressOf(context), there = PortAddressOf(other.context);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = connection.mtu;
  attr.dest_qp_num = other.qp->qp_num;
  attr.rq_psn = connection.receive_psn;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = connection.min_rnr_timer;
  attr.ah_attr.port_num = kPort;
  attr.ah_attr.dlid = there.lid;
  attr.ah_attr.is_global = there.global;
  attr.ah_attr.grh.dgid = there.gid;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(here.gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  if (connection.path) attr.ah_attr = *connection.path;
  int mask = IBV_QP_STATE;
  if (qp->qp_type != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV)
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, mask), 0);
}

void Peer::ToRts(const Connection& connection) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = connection.timeout;
  attr.retry_cnt = connection.retries;
  attr.rnr_retry = connection.rnr_retries;
  attr.sq_psn = connection.send_psn;
  attr.max_rd_atomic = 16;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (qp->qp_type == IBV_QPT_XRC_RECV) mask |= IBV_QP_TIMEOUT;
  if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND) {
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, mask), 0);
}

void Peer::To(ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE), 0);
}

ibv_qp_state Peer::State() const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

void Peer::PostReceive(std::vector<ibv_sge> sges, uint64_t id) {
  ibv_recv_wr wr{
      .wr_id = id, .next = nullptr, .sg_list = sges.data(), .num_sge = static_cast<int>(sges.size())};
  ibv_recv_wr* bad = nullptr;
  srq != nullptr ? Publish(srq.get()) : Publish(qp.get());
  ASSERT_EQ(srq != nullptr ? ibv_post_srq_recv(srq.get(), &wr, &bad) : ibv_post_recv(qp.get(), &wr, &bad), 0);
}

AddressHandle Peer::AddressOf(const Peer& other, int gid_index) const {
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(other.context, kPort, gid_index, &gid), 0);
  return AddressOf(gid, gid_index);
}

AddressHandle Peer::AddressOf(const ibv_gid& gid, int gid_index) const {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = kPort;
  attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
  attr.grh.hop_limit = 64;
  attr.grh.dgid = gid;
  return AddressHandle(ibv_create_ah(pd.get(), &attr));
}

int Work::TryPost(Peer& peer) {
  wr_.sg_list = sges_.data();
  wr_.num_sge = static_cast<int>(sges_.size());
  ibv_send_wr* bad = nullptr;
  Publish(peer.qp.get());
  return ibv_post_send(peer.qp.get(), &wr_, &bad);
}

}  // namespace verbs
