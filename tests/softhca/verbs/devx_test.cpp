#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "mlx5/prm.hpp"
#include "verbs/peer.hpp"

namespace verbs {
namespace {

constexpr uint64_t kCreateCq = 0x400, kCreateQp = 0x500, kRst2Init = 0x502, kInit2Rtr = 0x503,
                   kRtr2Rts = 0x504, k2Err = 0x507, kQueryQp = 0x50b;
constexpr uint8_t kBadParameter = 0x3, kBadResource = 0x5, kBadQpState = 0x10;

/// A command or its answer, whose fields are named as in the tables.
class Mailbox {
 public:
  explicit Mailbox(const std::string& name)
      : name_(name), words_(prm::FieldAt(name + ".@sizeof").width / 32) {}
  Mailbox(const std::string& name, uint64_t opcode) : Mailbox(name) { Set("opcode", opcode); }

  Mailbox& Set(const std::string& field, uint64_t value) {
    return Put(prm::FieldAt(name_ + '.' + field), value);
  }
  /// Sets a field of a struct that this one embeds.
  Mailbox& Set(const std::string& context, const std::string& field, uint64_t value) {
    return Put(Inside(context, field), value);
  }
  Mailbox& SetBytes(const std::string& context, const std::string& field, const void* bytes, size_t count) {
    std::memcpy(words_.data() + Inside(context, field).bit / 32, bytes, count);
    return *this;
  }
  uint64_t Get(const std::string& field) const { return Take(prm::FieldAt(name_ + '.' + field)); }
  uint64_t Get(const std::string& context, const std::string& field) const {
    return Take(Inside(context, field));
  }

  void* data() { return words_.data(); }
  size_t size() const { return words_.size() * sizeof words_[0]; }

 private:
  /// `field` is "struct.field"; an address path lies in the queue pair's context.
  prm::Place Inside(const std::string& context, const std::string& field) const {
    prm::Place place = prm::FieldAt(field);
    place.bit += prm::FieldAt(name_ + '.' + context).bit;
    if (field.starts_with("ads.")) place.bit += prm::FieldAt("qpc.primary_address_path").bit;
    return place;
  }
  Mailbox& Put(prm::Place place, uint64_t value) {
    for (uint32_t i = 0; i < place.width; ++i) {
      const uint32_t bit = place.bit + place.width - 1 - i;
      const uint32_t mask = 1u << (31 - bit % 32);
      const uint32_t word = be32toh(words_[bit / 32]);
      words_[bit / 32] = htobe32((value >> i & 1) != 0 ? word | mask : word & ~mask);
    }
    return *this;
  }
  uint64_t Take(prm::Place place) const {
    uint64_t value = 0;
    for (uint32_t bit = place.bit; bit < place.bit + place.width; ++bit) {
      value = value << 1 | (be32toh(words_[bit / 32]) >> (31 - bit % 32) & 1);
    }
    return value;
  }

  std::string name_;
  std::vector<uint32_t> words_;
};

using Object = std::unique_ptr<mlx5dv_devx_obj, Destroy<mlx5dv_devx_obj_destroy>>;
using Umem = std::unique_ptr<mlx5dv_devx_umem, Destroy<mlx5dv_devx_umem_dereg>>;

struct FreeUar {
  void operator()(mlx5dv_devx_uar* uar) const { mlx5dv_devx_free_uar(uar); }
};
using Uar = std::unique_ptr<mlx5dv_devx_uar, FreeUar>;

Context OpenDevx() {
  ibv_device** const list = ibv_get_device_list(nullptr);
  mlx5dv_context_attr attr{};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  Context context(mlx5dv_open_device(list[0], &attr));
  ibv_free_device_list(list);
  if (context == nullptr) throw std::runtime_error("the device does not open for DEVX");
  return context;
}

/// Queues laid out by hand in one piece of memory, and a queue pair that is connected to itself.
class Devx : public testing::Test {
 protected:
  static constexpr uint32_t kLogDepth = 2, kDepth = 1 << kLogDepth;
  static constexpr size_t kCqRing = 0, kCqRecord = 4096, kQpRecord = 4160, kSendRing = 8192, kBytes = 16384;

  Devx() {
    mlx5dv_pd number{};
    mlx5dv_obj object{};
    object.pd = {.in = pd.get(), .out = &number};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD), 0);
    pdn = number.pdn;
    EXPECT_EQ(mlx5dv_devx_query_eqn(context.get(), 0, &eqn), 0);
    for (size_t end = 64; end <= kCqRecord; end += 64) memory[end - 1] = MLX5_CQE_INVALID << 4;
  }

  Mailbox CqCommand(bool collapsed) const {
    Mailbox in("create_cq_in", kCreateCq);
    in.Set("cq_umem_id", umem->umem_id).Set("cq_umem_valid", 1).Set("cq_umem_offset", kCqRing);
    in.Set("cq_context", "cqc.dbr_umem_valid", 1).Set("cq_context", "cqc.dbr_umem_id", umem->umem_id);
    in.Set("cq_context", "cqc.dbr_addr", kCqRecord).Set("cq_context", "cqc.log_cq_size", kLogDepth);
    in.Set("cq_context", "cqc.uar_page", uar->page_id).Set("cq_context", "cqc.c_eqn", eqn);
    in.Set("cq_context", "cqc.cc", collapsed).Set("cq_context", "cqc.oi", collapsed);
    return in;
  }
  Mailbox QpCommand() const {
    Mailbox in("create_qp_in", kCreateQp);
    in.Set("wq_umem_id", umem->umem_id).Set("wq_umem_valid", 1).Set("wq_umem_offset", kSendRing);
    in.Set("qpc", "qpc.dbr_umem_valid", 1).Set("qpc", "qpc.dbr_umem_id", umem->umem_id);
    in.Set("qpc", "qpc.dbr_addr", kQpRecord)
        .Set("qpc", "qpc.pd", pdn)
        .Set("qpc", "qpc.uar_page", uar->page_id);
    in.Set("qpc", "qpc.log_sq_size", kLogDepth).Set("qpc", "qpc.rq_type", 3).Set("qpc", "qpc.pm_state", 3);
    in.Set("qpc", "qpc.cqn_snd", cqn).Set("qpc", "qpc.cqn_rcv", cqn).Set("qpc", "qpc.user_index", 0x1234);
    return in;
  }
  /// @return  the new object, or null with `status` and `syndrome` set to the firmware's
  Object Create(Mailbox in, Mailbox out) {
    Object object(mlx5dv_devx_obj_create(context.get(), in.data(), in.size(), out.data(), out.size()));
    status = static_cast<uint8_t>(out.Get("status"));
    syndrome = static_cast<uint32_t>(out.Get("syndrome"));
    answer = out;
    return object;
  }
  /// @return  the firmware's status
  uint8_t Modify(Mailbox in) {
    Mailbox out("create_qp_out");  // all answers to changes look alike
    const int error = mlx5dv_devx_obj_modify(qp.get(), in.data(), in.size(), out.data(), out.size());
    EXPECT_EQ(error != 0, out.Get("status") != 0);
    return static_cast<uint8_t>(out.Get("status"));
  }
  void CreateQueues(bool collapsed) {
    cq = Create(CqCommand(collapsed), Mailbox("create_cq_out"));
    ASSERT_NE(cq, nullptr) << "status " << int{status};
    cqn = static_cast<uint32_t>(answer.Get("cqn"));
    qp = Create(QpCommand(), Mailbox("create_qp_out"));
    ASSERT_NE(qp, nullptr) << "status " << int{status};
    qpn = static_cast<uint32_t>(answer.Get("qpn"));
  }
  Mailbox ToInit() const {
    Mailbox in("rst2init_qp_in", kRst2Init);
    in.Set("qpn", qpn).Set("qpc", "ads.vhca_port_num", 1).Set("qpc", "qpc.pm_state", 3);
    return in.Set("qpc", "qpc.rwe", 1).Set("qpc", "qpc.rre", 1);
  }
  Mailbox ToRtr() const {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context.get(), 1, 0, &gid), 0);
    Mailbox in("init2rtr_qp_in", kInit2Rtr);
    in.Set("qpn", qpn)
        .Set("qpc", "qpc.remote_qpn", qpn)
        .Set("qpc", "qpc.mtu", 3)
        .Set("qpc", "qpc.log_msg_max", 30);
    in.Set("qpc", "qpc.next_rcv_psn", 0x123456)
        .Set("qpc", "qpc.log_rra_max", 4)
        .Set("qpc", "qpc.min_rnr_nak", 12);
    return in.SetBytes("qpc", "ads.rgid_rip", gid.raw, sizeof gid.raw).Set("qpc", "ads.hop_limit", 64);
  }
  Mailbox ToRts() const {
    Mailbox in("rtr2rts_qp_in", kRtr2Rts);
    in.Set("qpn", qpn).Set("qpc", "qpc.next_send_psn", 0x123456).Set("qpc", "qpc.log_sra_max", 4);
    return in.Set("qpc", "qpc.retry_count", 7)
        .Set("qpc", "qpc.rnr_retry", 7)
        .Set("qpc", "ads.ack_timeout", 14);
  }
  void Connect() {
    ASSERT_EQ(Modify(ToInit()), 0);
    ASSERT_EQ(Modify(ToRtr()), 0);
    ASSERT_EQ(Modify(ToRts()), 0);
  }
  Mailbox Query() {
    Mailbox in("query_qp_in", kQueryQp), out("query_qp_out");
    in.Set("qpn", qpn);
    EXPECT_EQ(mlx5dv_devx_obj_query(qp.get(), in.data(), in.size(), out.data(), out.size()), 0);
    return out;
  }

  /// Writes an entry of 64 bytes that copies 8 bytes within `data`, and rings.
  void PostWrite(uint16_t index, size_t from, size_t to, uint32_t rkey) {
    struct {
      mlx5_wqe_ctrl_seg ctrl;
      mlx5_wqe_raddr_seg remote;
      mlx5_wqe_data_seg local;
    } wqe{};
    static_assert(sizeof wqe == 48);
    wqe.ctrl.opmod_idx_opcode = htobe32(uint32_t{index} << 8 | MLX5_OPCODE_RDMA_WRITE);
    wqe.ctrl.qpn_ds = htobe32(qpn << 8 | sizeof wqe / 16);
    wqe.ctrl.fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
    wqe.remote.raddr = htobe64(data.Address(to));
    wqe.remote.rkey = htobe32(rkey);
    const ibv_sge sge = data.Sge(from, 8);
    mlx5dv_set_data_seg(&wqe.local, sge.length, sge.lkey, sge.addr);
    std::memcpy(&memory[kSendRing + index % kDepth * 64], &wqe, sizeof wqe);
    Store(kQpRecord + 4, htobe32((index + 1u) & 0xffff));
    uint64_t doorbell = 0;
    std::memcpy(&doorbell, &wqe, sizeof doorbell);
    std::atomic_ref(*static_cast<uint64_t*>(uar->reg_addr)).store(doorbell, std::memory_order_release);
  }
  void Store(size_t offset, uint32_t value) {
    std::atomic_ref(*reinterpret_cast<uint32_t*>(&memory[offset])).store(value, std::memory_order_release);
  }
  /// Waits until `done` says so of the last 8 bytes of a completion.
  template <class Done>
  mlx5_cqe64 WaitFor(size_t slot, Done done) {
    uint8_t* const entry = &memory[kCqRing + slot * 64];
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    mlx5_cqe64 cqe{};
    do {
      const std::atomic_ref last(*reinterpret_cast<uint64_t*>(entry + 56));
      const uint64_t tail = last.load(std::memory_order_acquire);
      std::memcpy(reinterpret_cast<uint8_t*>(&cqe) + 56, &tail, sizeof tail);
      if (done(cqe)) {
        std::memcpy(&cqe, entry, 56);
        return cqe;
      }
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < deadline);
    ADD_FAILURE() << "no completion";
    return cqe;
  }
  mlx5_cqe64 WaitInRing(uint32_t index) {
    return WaitFor(index % kDepth, [&](const mlx5_cqe64& cqe) {
      return mlx5dv_get_cqe_opcode(const_cast<mlx5_cqe64*>(&cqe)) != MLX5_CQE_INVALID &&
             mlx5dv_get_cqe_owner(const_cast<mlx5_cqe64*>(&cqe)) == (index / kDepth & 1);
    });
  }

  Context context = OpenDevx();
  Pd pd{ibv_alloc_pd(context.get())};
  Buffer data{pd.get(), 4096};
  uint32_t pdn = 0, eqn = 0, cqn = 0, qpn = 0;
  alignas(4096) std::array<uint8_t, kBytes> memory{};
  Umem umem{mlx5dv_devx_umem_reg(context.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE)};
  Uar uar{mlx5dv_devx_alloc_uar(context.get(), MLX5DV_UAR_ALLOC_TYPE_NC)};
  Object cq, qp;
  Mailbox answer{"create_cq_out"};
  uint8_t status = 0;
  uint32_t syndrome = 0;
};

TEST_F(Devx, WritesAndReportsInARing) {
  CreateQueues(false);
  Connect();
  for (uint32_t i = 0; i < 20'000; ++i) {
    data.As<uint64_t>(0) = i + 1;
    PostWrite(static_cast<uint16_t>(i), 0, 8, data.rkey());
    const mlx5_cqe64 cqe = WaitInRing(i);
    Store(kCqRecord, htobe32((i + 1) & 0xffffff));
    ASSERT_EQ(mlx5dv_get_cqe_opcode(const_cast<mlx5_cqe64*>(&cqe)), MLX5_CQE_REQ) << i;
    ASSERT_EQ(be16toh(cqe.wqe_counter), static_cast<uint16_t>(i));
    ASSERT_EQ(be32toh(cqe.srqn_uidx) & 0xffffff, 0x1234u);
    ASSERT_EQ(be32toh(cqe.sop_drop_qpn), MLX5_OPCODE_RDMA_WRITE << 24 | qpn);
    ASSERT_EQ(data.As<uint64_t>(8), i + 1);
  }
}

TEST_F(Devx, CollapsedQueueCountsInItsOnlyEntry) {
  CreateQueues(true);
  Connect();
  for (uint32_t i = 0; i < 70'000; ++i) {
    data.As<uint64_t>(0) = i + 1;
    PostWrite(static_cast<uint16_t>(i), 0, 8, data.rkey());
    WaitFor(0, [&](const mlx5_cqe64& cqe) {
      return mlx5dv_get_cqe_opcode(const_cast<mlx5_cqe64*>(&cqe)) == MLX5_CQE_REQ &&
             be16toh(cqe.wqe_counter) == static_cast<uint16_t>(i);
    });
    ASSERT_EQ(data.As<uint64_t>(8), i + 1);
  }
}

TEST_F(Devx, ErrorReachesTheCompletionWithItsSyndrome) {
  CreateQueues(true);
  Connect();
  PostWrite(0, 0, 8, data.rkey() + 1);
  const mlx5_cqe64 cqe = WaitFor(0, [](const mlx5_cqe64& tail) {
    return mlx5dv_get_cqe_opcode(const_cast<mlx5_cqe64*>(&tail)) == MLX5_CQE_REQ_ERR;
  });
  EXPECT_EQ(reinterpret_cast<const mlx5_err_cqe&>(cqe).syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
  EXPECT_EQ(Query().Get("qpc", "qpc.state"), 6u);
}

TEST_F(Devx, QueryTellsWhatWasSet) {
  CreateQueues(false);
  EXPECT_EQ(Query().Get("qpc", "qpc.state"), 0u);
  Connect();
  const Mailbox out = Query();
  const std::map<std::string, uint64_t> expected = {{"qpc.state", 3},         {"qpc.pd", pdn},
                                                    {"qpc.mtu", 3},           {"qpc.log_sq_size", kLogDepth},
                                                    {"qpc.remote_qpn", qpn},  {"qpc.cqn_snd", cqn},
                                                    {"qpc.retry_count", 7},   {"qpc.rnr_retry", 7},
                                                    {"qpc.rwe", 1},           {"qpc.rre", 1},
                                                    {"qpc.rae", 0},           {"qpc.next_rcv_psn", 0x123456},
                                                    {"qpc.min_rnr_nak", 12},  {"qpc.log_rra_max", 4},
                                                    {"qpc.log_sra_max", 4},   {"qpc.next_send_psn", 0x123456},
                                                    {"ads.vhca_port_num", 1}, {"ads.hop_limit", 64},
                                                    {"ads.ack_timeout", 14},  {"qpc.user_index", 0x1234}};
  for (const auto& [field, value] : expected) EXPECT_EQ(out.Get("qpc", field), value) << field;
}

TEST_F(Devx, SequenceNumbersMoveWithTheTraffic) {
  CreateQueues(false);
  Connect();
  PostWrite(0, 0, 8, data.rkey());
  WaitInRing(0);
  const Mailbox out = Query();
  EXPECT_EQ(out.Get("qpc", "qpc.next_send_psn"), 0x123457u);
  EXPECT_EQ(out.Get("qpc", "qpc.next_rcv_psn"), 0x123457u);
  EXPECT_EQ(out.Get("qpc", "qpc.hw_sq_wqebb_counter"), 1u);
}

TEST_F(Devx, ErrorStateByCommand) {
  CreateQueues(false);
  Connect();
  EXPECT_EQ(Modify(Mailbox("qp_2err_in", k2Err).Set("qpn", qpn)), 0);
  EXPECT_EQ(Query().Get("qpc", "qpc.state"), 6u);
  PostWrite(0, 0, 8, data.rkey());
  const mlx5_cqe64 cqe = WaitInRing(0);
  EXPECT_EQ(reinterpret_cast<const mlx5_err_cqe&>(cqe).syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

TEST_F(Devx, BadParametersComeBackWithStatusAndSyndrome) {
  const auto cq_status = [&](const std::function<void(Mailbox&)>& spoil) {
    Mailbox in = CqCommand(false);
    spoil(in);
    EXPECT_EQ(Create(in, Mailbox("create_cq_out")), nullptr);
    EXPECT_EQ(errno, EREMOTEIO);
    EXPECT_NE(syndrome, 0u);
    return status;
  };
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_context", "cqc.log_cq_size", 31); }), kBadParameter);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_umem_offset", kBytes); }), kBadParameter);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_context", "cqc.dbr_addr", kBytes - 4); }), kBadParameter);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_umem_id", 0x777); }), kBadResource);
  EXPECT_EQ(cq_status([](Mailbox& in) { in.Set("cq_context", "cqc.uar_page", 0x777); }), kBadResource);

  CreateQueues(false);
  const auto qp_status = [&](const std::function<void(Mailbox&)>& spoil) {
    Mailbox in = QpCommand();
    spoil(in);
    EXPECT_EQ(Create(in, Mailbox("create_qp_out")), nullptr);
    EXPECT_NE(syndrome, 0u);
    return status;
  };
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.pd", 0x777); }), kBadResource);
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.cqn_snd", 0x777); }), kBadResource);
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.log_sq_size", 15); }), kBadParameter);
  EXPECT_EQ(qp_status([](Mailbox& in) { in.Set("qpc", "qpc.st", 2); }), kBadParameter);
}

TEST_F(Devx, TransitionsOutOfOrderComeBackWithAStatus) {
  CreateQueues(false);
  EXPECT_EQ(Modify(ToRts()), kBadQpState);
  EXPECT_EQ(Modify(ToRtr()), kBadQpState);
  EXPECT_EQ(Modify(ToInit()), 0);
  EXPECT_EQ(Modify(ToRtr().Set("qpc", "qpc.mtu", 7)), kBadParameter);
  EXPECT_EQ(Modify(ToRtr()), 0);
  EXPECT_EQ(Modify(ToRtr()), kBadQpState);
}

TEST_F(Devx, ObjectsInUseAreNotDestroyed) {
  CreateQueues(false);
  EXPECT_NE(mlx5dv_devx_obj_destroy(cq.get()), 0);
  EXPECT_NE(mlx5dv_devx_umem_dereg(umem.get()), 0);
  Connect();
  PostWrite(0, 0, 8, data.rkey());
  WaitInRing(0);
}

TEST_F(Devx, UnknownCommandIsRefused) {
  Mailbox in("query_qp_in", 0xfff), out("query_qp_out");
  EXPECT_NE(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
}

TEST_F(Devx, CapabilitiesAreAConnectX7s) {
  Mailbox in("query_hca_cap_in", 0x100), out("query_hca_cap_out");
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.port_type"), 1u);
  EXPECT_GE(out.Get("capability", "cmd_hca_cap.log_max_qp_sz"), 15u);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.num_ports"), 1u);
}

}  // namespace
}  // namespace verbs
