#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "verbs/peer.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

/// Compares what libmlx5 and this library write for a request, byte for byte: WQE, doorbell record, doorbell.
namespace warpverbs::e2e {
namespace {

using arch::Cpu;
using verbs::Work;

constexpr uint32_t kDepth = 64;
constexpr uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// A request as the NIC sees it.
struct WqeImage {
  std::vector<uint8_t> wqe;  ///< its control segment states the length
  uint32_t record;
  uint64_t doorbell;
};

/// Reads a WQE, which may continue at the start of its ring.
std::vector<uint8_t> ReadWqe(const uint8_t* ring, uint32_t depth, uint32_t index) {
  mlx5::CtrlSegment ctrl;
  std::memcpy(&ctrl, ring + size_t{index % depth} * mlx5::kWqebbBytes, sizeof ctrl);
  std::vector<uint8_t> wqe((mlx5::FromBe(ctrl.qpn_ds) & mlx5::kMaxSegments) * mlx5::kSegmentBytes);
  for (size_t at = 0; at < wqe.size(); ++at) {
    const size_t slot = (index + at / mlx5::kWqebbBytes) % depth;
    wqe[at] = ring[slot * mlx5::kWqebbBytes + at % mlx5::kWqebbBytes];
  }
  return wqe;
}

uint32_t SlotsOf(const std::vector<uint8_t>& wqe) {
  return static_cast<uint32_t>((wqe.size() + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes);
}

/// Send flags of verbs, and ours.
struct Flags {
  unsigned verbs;
  uint32_t ours;
};
constexpr Flags kFlags[] = {
    {IBV_SEND_SIGNALED, mlx5::kCqeAlways},
    {0, mlx5::kCqeOnError},
    {IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, mlx5::kCqeAlways | mlx5::kSolicited},
    {IBV_SEND_SIGNALED | IBV_SEND_FENCE, mlx5::kCqeAlways | mlx5::kFence},
    {IBV_SEND_FENCE | IBV_SEND_SOLICITED, mlx5::kFence | mlx5::kSolicited},
};

class Encoder : public verbs::TwoPeers {
 protected:
  using Post = std::function<mlx5::Be64(uint32_t index, uint32_t flags)>;

  Encoder() {
    CreateQueuePair();
    Connect();
    mlx5dv_obj object{};
    object.qp = {a.qp.get(), &queue_};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
    // Catches the doorbells: a page of ours over the NIC's keeps them readable and unexecuted.
    register_page_ =
        reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(queue_.bf.reg) & ~uintptr_t{4095});
    EXPECT_EQ(mmap(register_page_, mlx5::kUarPageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              register_page_);
  }

  /// Compares what ibv_post_send(), ibv_wr_*() and this library write for a request, with every choice of
  /// flags.
  void ExpectSame(Work by_post_send, const std::function<void()>& by_wr, const Post& ours,
                  unsigned more_flags = 0) {
    for (const Flags& flags : kFlags) {
      SCOPED_TRACE(testing::Message() << "verbs flags " << flags.verbs);
      by_post_send.Flags(flags.verbs | more_flags).Post(a);
      ExpectSameImages(ours, flags.ours);
      ibv_wr_start(ex_);
      ex_->wr_flags = flags.verbs | more_flags;
      by_wr();
      ASSERT_EQ(ibv_wr_complete(ex_), 0);
      ExpectSameImages(ours, flags.ours);
    }
  }

  void SetSge(size_t offset, uint32_t bytes) {
    const ibv_sge sge = local.Sge(offset, bytes);
    ibv_wr_set_sge(ex_, sge.lkey, sge.addr, sge.length);
  }
  void SetTwoSges() {
    const std::array<ibv_sge, 2> sges = {local.Sge(8, 1000), local.Sge(2000, 24)};
    ibv_wr_set_sge_list(ex_, sges.size(), sges.data());
  }
  device::LocalMemory Local(size_t offset, uint32_t bytes) {
    return {local.Address(offset), bytes, mlx5::ToBe32(local.Sge(offset, bytes).lkey)};
  }
  device::RemoteMemory Remote(size_t offset) const {
    return {remote.Address(offset), mlx5::ToBe32(remote.rkey())};
  }
  device::RawSendQueue<Cpu> Ours() {
    return device::RawSendQueue<Cpu>({.sq = ring_[0].bytes,
                                      .doorbell = &doorbell_,
                                      .dbrec = &record_,
                                      .cqe = nullptr,
                                      .control = nullptr,
                                      .qpn_be = mlx5::ToBe32(a.qp->qp_num << 8).raw,
                                      .depth = kDepth,
                                      .max_message = 1 << 30,
                                      .sink_lkey_be = 0,
                                      .flags = 0});
  }

  template <size_t kBytes>
  void ExpectSameInline() {
    SCOPED_TRACE(testing::Message() << kBytes << " bytes inline");
    std::array<uint8_t, kBytes> value;
    std::iota(value.begin(), value.end(), uint8_t{1});
    std::memcpy(&local[40], value.data(), kBytes);
    const auto by_wr = [&] {
      ibv_wr_rdma_write(ex_, remote.rkey(), remote.Address(24));
      ibv_wr_set_inline_data(ex_, value.data(), kBytes);
    };
    ExpectSame(
        Work(IBV_WR_RDMA_WRITE, {local.Sge(40, kBytes)}).To(remote, 24), by_wr,
        [&](uint32_t i, uint32_t flags) { return Ours().PostWriteInline(i, Remote(24), value, flags); },
        IBV_SEND_INLINE);
  }

  ibv_qp_ex* ex_ = nullptr;

 private:
  void CreateQueuePair() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = a.send_cq.get();
    init.recv_cq = a.receive_cq.get();
    init.qp_type = IBV_QPT_RC;
    init.cap = {.max_send_wr = 512,  // nothing completes
                .max_recv_wr = 1,
                .max_send_sge = device::kMaxGatherEntries,
                .max_recv_sge = 1,
                .max_inline_data = device::kMaxInlineWriteBytes};
    init.pd = a.pd.get();
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = kOperations;
    a.qp.reset(ibv_create_qp_ex(context_a.get(), &init));
    if (a.qp == nullptr) throw std::runtime_error("the queue pair cannot be created");
    ex_ = ibv_qp_to_qp_ex(a.qp.get());
  }

  WqeImage ImageOfVerbs() {
    // libmlx5 alternates between two registers. A page of zeros before each request shows which one it used.
    auto* const first = reinterpret_cast<uint64_t*>(queue_.bf.reg);
    auto* const second = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(queue_.bf.reg) + queue_.bf.size);
    const uint64_t doorbell = *first != 0 ? *first : *second;
    std::memset(register_page_, 0, mlx5::kUarPageBytes);
    const auto* const ring = static_cast<const uint8_t*>(queue_.sq.buf);
    return {ReadWqe(ring, queue_.sq.wqe_cnt, index_), reinterpret_cast<uint32_t*>(queue_.dbrec)[1], doorbell};
  }

  WqeImage ImageOfOurs(const Post& post, uint32_t flags) {
    const mlx5::Be64 doorbell = post(index_, flags);
    std::vector<uint8_t> wqe = ReadWqe(ring_[0].bytes, kDepth, index_);
    Ours().UpdateSendDbrRecord(index_ + SlotsOf(wqe));
    Ours().RingDoorbell(doorbell);
    return {std::move(wqe), record_, doorbell_};
  }

  /// Compares the images of the request that both have just encoded. A WQE of several slots does not complete
  /// by itself here: a NOP behind it does.
  void ExpectSameImages(const Post& ours, uint32_t flags) {
    WqeImage of_verbs = ImageOfVerbs(), of_ours = ImageOfOurs(ours, flags);
    const uint32_t slots = SlotsOf(of_ours.wqe);
    if (slots > 1) {
      const std::vector<uint8_t> nop = ReadWqe(ring_[0].bytes, kDepth, index_ + slots);
      ASSERT_EQ(nop.size(), mlx5::kSegmentBytes);
      EXPECT_EQ(nop[3], static_cast<uint8_t>(mlx5::WqeOpcode::kNop));
      EXPECT_EQ(nop[11], flags);
      EXPECT_EQ(std::memcmp(&of_ours.doorbell, nop.data(), sizeof of_ours.doorbell), 0);
      std::memcpy(&of_ours.doorbell, of_ours.wqe.data(), sizeof of_ours.doorbell);
      of_verbs.wqe.at(11) &= static_cast<uint8_t>(~mlx5::kCompletionMask);
    }
    ExpectEqual(of_verbs, of_ours);
    index_ += slots;
  }

  static void ExpectEqual(const WqeImage& verbs, const WqeImage& ours) {
    EXPECT_THAT(ours.wqe, testing::ElementsAreArray(verbs.wqe));
    EXPECT_EQ(ours.record, verbs.record);
    EXPECT_EQ(ours.doorbell, verbs.doorbell);
    EXPECT_NE(ours.doorbell, 0u);
  }

  mlx5dv_qp queue_{};
  uint8_t* register_page_ = nullptr;
  uint32_t index_ = 0;
  mlx5::Wqebb ring_[kDepth]{};
  uint32_t record_ = 0;
  uint64_t doorbell_ = 0;
};

TEST_F(Encoder, MatchesLibmlx5ForWrite) {
  const auto by_wr = [&] {
    ibv_wr_rdma_write(ex_, remote.rkey(), remote.Address(16));
    SetSge(8, 1000);
  };
  ExpectSame(
      Work(IBV_WR_RDMA_WRITE, {local.Sge(8, 1000)}).To(remote, 16), by_wr,
      [&](uint32_t i, uint32_t flags) { return Ours().PostWrite(i, Remote(16), Local(8, 1000), flags); });
}

TEST_F(Encoder, MatchesLibmlx5ForEmptyWrite) {
  const auto by_wr = [&] {
    ibv_wr_rdma_write(ex_, remote.rkey(), remote.Address(16));
    SetSge(8, 0);
  };
  ExpectSame(Work(IBV_WR_RDMA_WRITE, {local.Sge(8, 0)}).To(remote, 16), by_wr,
             [&](uint32_t i, uint32_t flags) { return Ours().PostWrite(i, Remote(16), Local(8, 0), flags); });
}

TEST_F(Encoder, MatchesLibmlx5ForWriteWithImmediate) {
  constexpr uint32_t kImm = 0x12345678;
  const auto by_wr = [&] {
    ibv_wr_rdma_write_imm(ex_, remote.rkey(), remote.Address(16), htobe32(kImm));
    SetSge(8, 1000);
  };
  ExpectSame(Work(IBV_WR_RDMA_WRITE_WITH_IMM, {local.Sge(8, 1000)}).To(remote, 16).Imm(kImm), by_wr,
             [&](uint32_t i, uint32_t flags) {
               return Ours().PostWriteImm(i, Remote(16), Local(8, 1000), mlx5::ToBe32(kImm), flags);
             });
}

TEST_F(Encoder, MatchesLibmlx5ForInlineWriteOfOneSegment) {
  ExpectSameInline<1>();
  ExpectSameInline<4>();
  ExpectSameInline<8>();
  ExpectSameInline<12>();
}

TEST_F(Encoder, MatchesLibmlx5ForInlineWriteOfTwoSegments) {
  ExpectSameInline<13>();
  ExpectSameInline<16>();
  ExpectSameInline<28>();
}

TEST_F(Encoder, MatchesLibmlx5ForRead) {
  const auto by_wr = [&] {
    ibv_wr_rdma_read(ex_, remote.rkey(), remote.Address(16));
    SetSge(8, 1000);
  };
  ExpectSame(
      Work(IBV_WR_RDMA_READ, {local.Sge(8, 1000)}).To(remote, 16), by_wr,
      [&](uint32_t i, uint32_t flags) { return Ours().PostRead(i, Remote(16), Local(8, 1000), flags); });
}

TEST_F(Encoder, MatchesLibmlx5ForSend) {
  const auto by_wr = [&] {
    ibv_wr_send(ex_);
    SetSge(8, 1000);
  };
  ExpectSame(Work(IBV_WR_SEND, {local.Sge(8, 1000)}), by_wr,
             [&](uint32_t i, uint32_t flags) { return Ours().PostSend(i, Local(8, 1000), flags); });
}

TEST_F(Encoder, MatchesLibmlx5ForSendWithImmediate) {
  constexpr uint32_t kImm = 0xfedcba98;
  const auto by_wr = [&] {
    ibv_wr_send_imm(ex_, htobe32(kImm));
    SetSge(8, 1000);
  };
  ExpectSame(Work(IBV_WR_SEND_WITH_IMM, {local.Sge(8, 1000)}).Imm(kImm), by_wr,
             [&](uint32_t i, uint32_t flags) {
               return Ours().Post(i, device::SendImm(Local(8, 1000), mlx5::ToBe32(kImm)), flags);
             });
}

TEST_F(Encoder, MatchesLibmlx5ForWriteOfTwoEntries) {
  const auto by_wr = [&] {
    ibv_wr_rdma_write(ex_, remote.rkey(), remote.Address(16));
    SetTwoSges();
  };
  ExpectSame(Work(IBV_WR_RDMA_WRITE, {local.Sge(8, 1000), local.Sge(2000, 24)}).To(remote, 16), by_wr,
             [&](uint32_t i, uint32_t flags) {
               return Ours().Post(i, device::Write(Remote(16), Local(8, 1000), Local(2000, 24)), flags);
             });
}

TEST_F(Encoder, MatchesLibmlx5ForWriteWithImmediateOfTwoEntries) {
  constexpr uint32_t kImm = 0x12345678;
  const auto by_wr = [&] {
    ibv_wr_rdma_write_imm(ex_, remote.rkey(), remote.Address(16), htobe32(kImm));
    SetTwoSges();
  };
  ExpectSame(
      Work(IBV_WR_RDMA_WRITE_WITH_IMM, {local.Sge(8, 1000), local.Sge(2000, 24)}).To(remote, 16).Imm(kImm),
      by_wr, [&](uint32_t i, uint32_t flags) {
        const auto write = device::WriteImm(Remote(16), Local(8, 1000), mlx5::ToBe32(kImm), Local(2000, 24));
        return Ours().Post(i, write, flags);
      });
}

TEST_F(Encoder, MatchesLibmlx5ForReadOfTwoEntries) {
  const auto by_wr = [&] {
    ibv_wr_rdma_read(ex_, remote.rkey(), remote.Address(16));
    SetTwoSges();
  };
  ExpectSame(Work(IBV_WR_RDMA_READ, {local.Sge(8, 1000), local.Sge(2000, 24)}).To(remote, 16), by_wr,
             [&](uint32_t i, uint32_t flags) {
               return Ours().Post(i, device::Read(Remote(16), Local(8, 1000), Local(2000, 24)), flags);
             });
}

TEST_F(Encoder, MatchesLibmlx5ForSendOfTwoEntries) {
  const auto by_wr = [&] {
    ibv_wr_send(ex_);
    SetTwoSges();
  };
  ExpectSame(Work(IBV_WR_SEND, {local.Sge(8, 1000), local.Sge(2000, 24)}), by_wr,
             [&](uint32_t i, uint32_t flags) {
               return Ours().Post(i, device::Send(Local(8, 1000), Local(2000, 24)), flags);
             });
}

TEST_F(Encoder, MatchesLibmlx5ForSendWithImmediateOfTwoEntries) {
  constexpr uint32_t kImm = 0xfedcba98;
  const auto by_wr = [&] {
    ibv_wr_send_imm(ex_, htobe32(kImm));
    SetTwoSges();
  };
  ExpectSame(Work(IBV_WR_SEND_WITH_IMM, {local.Sge(8, 1000), local.Sge(2000, 24)}).Imm(kImm), by_wr,
             [&](uint32_t i, uint32_t flags) {
               const auto send = device::SendImm(Local(8, 1000), mlx5::ToBe32(kImm), Local(2000, 24));
               return Ours().Post(i, send, flags);
             });
}

TEST_F(Encoder, MatchesLibmlx5ForGatheredMessagesOfEachLength) {
  constexpr uint32_t kImm = 0xfedcba98;
  for (const uint32_t count : {1u, 2u, 3u, 4u, 6u, 7u, 14u, device::kMaxGatherEntries}) {
    SCOPED_TRACE(testing::Message() << count << " entries");
    std::vector<ibv_sge> sges;
    std::vector<device::LocalMemory> entries;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t bytes = i % 9 == 4 ? 0 : 10 + i;  // both leave out entries without bytes
      sges.push_back(local.Sge(100 * i, bytes));
      entries.push_back(Local(100 * i, bytes));
    }
    const auto set_sges = [&] { ibv_wr_set_sge_list(ex_, sges.size(), sges.data()); };
    const auto by_write = [&] {
      ibv_wr_rdma_write(ex_, remote.rkey(), remote.Address(16));
      set_sges();
    };
    ExpectSame(Work(IBV_WR_RDMA_WRITE, sges).To(remote, 16), by_write, [&](uint32_t i, uint32_t flags) {
      return Ours().Post(i, device::WriteGather(Remote(16), entries.data(), count), flags);
    });
    const auto by_write_imm = [&] {
      ibv_wr_rdma_write_imm(ex_, remote.rkey(), remote.Address(16), htobe32(kImm));
      set_sges();
    };
    ExpectSame(Work(IBV_WR_RDMA_WRITE_WITH_IMM, sges).To(remote, 16).Imm(kImm), by_write_imm,
               [&](uint32_t i, uint32_t flags) {
                 const auto write =
                     device::WriteImmGather(Remote(16), entries.data(), count, mlx5::ToBe32(kImm));
                 return Ours().Post(i, write, flags);
               });
    const auto by_send = [&] {
      ibv_wr_send(ex_);
      set_sges();
    };
    ExpectSame(Work(IBV_WR_SEND, sges), by_send, [&](uint32_t i, uint32_t flags) {
      return Ours().Post(i, device::SendGather(entries.data(), count), flags);
    });
    const auto by_send_imm = [&] {
      ibv_wr_send_imm(ex_, htobe32(kImm));
      set_sges();
    };
    ExpectSame(Work(IBV_WR_SEND_WITH_IMM, sges).Imm(kImm), by_send_imm, [&](uint32_t i, uint32_t flags) {
      return Ours().Post(i, device::SendImmGather(entries.data(), count, mlx5::ToBe32(kImm)), flags);
    });
  }
}

TEST_F(Encoder, MatchesLibmlx5ForFetchAdd) {
  constexpr uint64_t kAddend = 0x0123456789abcdef;
  const auto by_wr = [&] {
    ibv_wr_atomic_fetch_add(ex_, remote.rkey(), remote.Address(16), kAddend);
    SetSge(8, 8);
  };
  ExpectSame(Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(8, 8)}).FetchAdd(remote, 16, kAddend), by_wr,
             [&](uint32_t i, uint32_t flags) {
               return Ours().Post(i, device::FetchAdd(Remote(16), kAddend, Local(8, 8)), flags);
             });
}

TEST_F(Encoder, MatchesLibmlx5ForCompareSwap) {
  constexpr uint64_t kCompare = 0x0123456789abcdef, kSwap = 0xfedcba9876543210;
  const auto by_wr = [&] {
    ibv_wr_atomic_cmp_swp(ex_, remote.rkey(), remote.Address(16), kCompare, kSwap);
    SetSge(8, 8);
  };
  ExpectSame(
      Work(IBV_WR_ATOMIC_CMP_AND_SWP, {local.Sge(8, 8)}).CompareSwap(remote, 16, kCompare, kSwap), by_wr,
      [&](uint32_t i, uint32_t flags) {
        return Ours().Post(
            i, device::CompareSwap<uint64_t>(Remote(16), {.compare = kCompare, .swap = kSwap}, Local(8, 8)),
            flags);
      });
}

}  // namespace
}  // namespace warpverbs::e2e
