#pragma once

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "verbs/mailbox.hpp"
#include "verbs/peer.hpp"

namespace verbs {

inline constexpr uint64_t kCreateDct = 0x710, kDrainDct = 0x712, kQueryDct = 0x713, kQueryLag = 0x842;
inline constexpr uint64_t kCreateCq = 0x400, kCreateQp = 0x500, kRst2Init = 0x502, kInit2Rtr = 0x503,
                          kRtr2Rts = 0x504, k2Err = 0x507, k2Rst = 0x50a, kQueryQp = 0x50b;
inline constexpr uint8_t kBadParameter = 0x3, kBadResource = 0x5, kBadQpState = 0x10;  // answers

using Object = std::unique_ptr<mlx5dv_devx_obj, Destroy<mlx5dv_devx_obj_destroy>>;
using Umem = std::unique_ptr<mlx5dv_devx_umem, Destroy<mlx5dv_devx_umem_dereg>>;

struct FreeUar {
  void operator()(mlx5dv_devx_uar* uar) const { mlx5dv_devx_free_uar(uar); }
};
using Uar = std::unique_ptr<mlx5dv_devx_uar, FreeUar>;

inline Context OpenDevx() {
  ibv_device** const list = ibv_get_device_list(nullptr);
  mlx5dv_context_attr attr{};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  Context context(mlx5dv_open_device(list[0], &attr));
  ibv_free_device_list(list);
  if (context == nullptr) throw std::runtime_error("the device does not open for DEVX");
  return context;
}

/// Queues laid out by hand in one piece of memory, and a queue pair connected to itself.
class Devx : public testing::Test {
 protected:
  static constexpr uint32_t kLogDepth = 2, kDepth = 1 << kLogDepth;
  static constexpr size_t kCqRing = 0, kCqRecord = 4096, kReceiveCqRecord = 4160, kQpRecord = 4224,
                          kQueues = 8192, kReceiveCqRing = 12288, kBytes = 16384, kReceiveStride = 64;
  static constexpr uint32_t kUserIndex = 0x1234;

  Devx() {
    mlx5dv_pd number{};
    mlx5dv_obj object{};
    object.pd = {.in = pd.get(), .out = &number};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD), 0);
    pdn = number.pdn;
    EXPECT_EQ(mlx5dv_devx_query_eqn(context.get(), 0, &eqn), 0);
    for (const size_t ring : {kCqRing, kReceiveCqRing}) {
      for (size_t end = 64; end <= kDepth * 64; end += 64) memory[ring + end - 1] = MLX5_CQE_INVALID << 4;
    }
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
    in.Set("wq_umem_id", umem->umem_id).Set("wq_umem_valid", 1).Set("wq_umem_offset", kQueues);
    in.Set("qpc", "qpc.dbr_umem_valid", 1).Set("qpc", "qpc.dbr_umem_id", umem->umem_id);
    in.Set("qpc", "qpc.dbr_addr", kQpRecord)
        .Set("qpc", "qpc.pd", pdn)
        .Set("qpc", "qpc.uar_page", uar->page_id);
    in.Set("qpc", "qpc.log_sq_size", kLogDepth).Set("qpc", "qpc.rq_type", 3).Set("qpc", "qpc.pm_state", 3);
    in.Set("qpc", "qpc.cqn_snd", cqn).Set("qpc", "qpc.cqn_rcv", cqn).Set("qpc", "qpc.user_index", kUserIndex);
    return in;
  }
  /// @return  the new object; or null, with the firmware's answer in `status` and `syndrome`
  Object Create(Mailbox in, Mailbox out) {
    Object object(mlx5dv_devx_obj_create(context.get(), in.data(), in.size(), out.data(), out.size()));
    status = static_cast<uint8_t>(out.Get("status"));
    syndrome = static_cast<uint32_t>(out.Get("syndrome"));
    answer = out;
    return object;
  }
  /// @return  the firmware's status
  uint8_t Modify(Mailbox in) {
    Mailbox out("create_qp_out");  // every modify command has the same output layout
    const int error = mlx5dv_devx_obj_modify(qp.get(), in.data(), in.size(), out.data(), out.size());
    EXPECT_EQ(error != 0, out.Get("status") != 0);
    return static_cast<uint8_t>(out.Get("status"));
  }
  void CreateQueues(bool collapsed) {
    CreateCq(collapsed);
    CreateQp(QpCommand());
  }
  void CreateCq(bool collapsed) {
    cq = Create(CqCommand(collapsed), Mailbox("create_cq_out"));
    ASSERT_NE(cq, nullptr) << "status " << int{status};
    cqn = static_cast<uint32_t>(answer.Get("cqn"));
  }
  void CreateQp(const Mailbox& in) {
    qp = Create(in, Mailbox("create_qp_out"));
    ASSERT_NE(qp, nullptr) << "status " << int{status};
    qpn = static_cast<uint32_t>(answer.Get("qpn"));
  }
  /// Creates queues with receives. In memory they precede the sends. They complete in a queue of their own.
  void CreateReceivingQueues(bool collapsed) {
    CreateCq(collapsed);
    Mailbox in = CqCommand(false).Set("cq_umem_offset", kReceiveCqRing);
    receive_cq = Create(in.Set("cq_context", "cqc.dbr_addr", kReceiveCqRecord), Mailbox("create_cq_out"));
    ASSERT_NE(receive_cq, nullptr) << "status " << int{status};
    in = QpCommand().Set("qpc", "qpc.rq_type", 0).Set("qpc", "qpc.cqn_rcv", answer.Get("cqn"));
    CreateQp(in.Set("qpc", "qpc.log_rq_size", kLogDepth).Set("qpc", "qpc.log_rq_stride", 2));  // 16 << 2
    send_ring = kQueues + kDepth * kReceiveStride;
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

  /// The fields of a WQE's control segment.
  struct Entry {
    uint8_t opcode;
    uint8_t opmod = 0;
    uint32_t imm = 0;
    uint8_t flags = MLX5_WQE_CTRL_CQ_UPDATE;
  };
  /// Writes a WQE of up to 128 bytes, and rings the doorbell. One of more than 64 bytes takes two slots.
  template <class... Segments>
  void Post(uint16_t index, const Entry& entry, const Segments&... segments) {
    std::array<uint8_t, 128> wqe{};
    size_t end = sizeof(mlx5_wqe_ctrl_seg);
    static_assert((sizeof(mlx5_wqe_ctrl_seg) + ... + sizeof segments) <= sizeof wqe);
    ((std::memcpy(&wqe[end], &segments, sizeof segments), end += sizeof segments), ...);
    mlx5dv_set_ctrl_seg(reinterpret_cast<mlx5_wqe_ctrl_seg*>(wqe.data()), index, entry.opcode, entry.opmod,
                        qpn, entry.flags, static_cast<uint8_t>(end / 16), 0, htobe32(entry.imm));
    uint32_t next = index;
    for (size_t start = 0; start < end; start += 64) {
      std::memcpy(&memory[send_ring + next++ % kDepth * 64], &wqe[start], 64);
    }
    Store(kQpRecord + 4, htobe32(next & 0xffff));
    uint64_t doorbell = 0;
    std::memcpy(&doorbell, wqe.data(), sizeof doorbell);
    std::atomic_ref(*static_cast<uint64_t*>(uar->reg_addr)).store(doorbell, std::memory_order_release);
  }
  /// Returns a data segment within `data`.
  mlx5_wqe_data_seg Local(size_t offset, uint32_t bytes) {
    mlx5_wqe_data_seg segment{};
    const ibv_sge sge = data.Sge(offset, bytes);
    mlx5dv_set_data_seg(&segment, sge.length, sge.lkey, sge.addr);
    return segment;
  }
  mlx5_wqe_raddr_seg Remote(size_t offset, uint32_t rkey) const {
    return {.raddr = htobe64(data.Address(offset)), .rkey = htobe32(rkey), .reserved = 0};
  }
  /// Posts a write of 8 bytes within `data`.
  void PostWrite(uint16_t index, size_t from, size_t to, uint32_t rkey) {
    Post(index, {MLX5_OPCODE_RDMA_WRITE}, Remote(to, rkey), Local(from, 8));
  }
  /// Posts a receive of up to 64 bytes into `data`. A receive has no doorbell but the record.
  void PostReceive(uint16_t index, size_t offset, uint32_t bytes) {
    const mlx5_wqe_data_seg segments[] = {Local(offset, bytes),
                                          {.byte_count = 0, .lkey = htobe32(MLX5_INVALID_LKEY), .addr = 0}};
    std::memcpy(&memory[kQueues + index % kDepth * kReceiveStride], segments, sizeof segments);
    Store(kQpRecord, htobe32((index + 1u) & 0xffff));
  }
  void Store(size_t offset, uint32_t value) {
    std::atomic_ref(*reinterpret_cast<uint32_t*>(&memory[offset])).store(value, std::memory_order_release);
  }
  /// Waits until `done` accepts the last 8 bytes of the CQE at `place`.
  template <class Done>
  mlx5_cqe64 WaitFor(size_t place, Done done) {
    uint8_t* const entry = &memory[place];
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
  mlx5_cqe64 WaitInRing(uint32_t index, size_t ring = kCqRing) {
    return WaitFor(ring + index % kDepth * 64, [&](const mlx5_cqe64& cqe) {
      return Opcode(cqe) != MLX5_CQE_INVALID &&
             mlx5dv_get_cqe_owner(const_cast<mlx5_cqe64*>(&cqe)) == (index / kDepth & 1);
    });
  }
  static uint8_t Opcode(const mlx5_cqe64& cqe) {
    return mlx5dv_get_cqe_opcode(const_cast<mlx5_cqe64*>(&cqe));
  }
  static const mlx5_err_cqe& Error(const mlx5_cqe64& cqe) {
    return reinterpret_cast<const mlx5_err_cqe&>(cqe);
  }

  Context context = OpenDevx();
  Pd pd{ibv_alloc_pd(context.get())};
  Buffer data{pd.get(), 4096};
  uint32_t pdn = 0, eqn = 0, cqn = 0, qpn = 0;
  Memory memory{kBytes};
  Umem umem{mlx5dv_devx_umem_reg(context.get(), memory.pointer(), memory.size(), IBV_ACCESS_LOCAL_WRITE)};
  Uar uar{mlx5dv_devx_alloc_uar(context.get(), MLX5DV_UAR_ALLOC_TYPE_NC)};
  size_t send_ring = kQueues;
  Object cq, receive_cq, qp;
  Mailbox answer{"create_cq_out"};
  uint8_t status = 0;
  uint32_t syndrome = 0;
};

}  // namespace verbs
