// Indirect memory keys, and the atomics that programs send through them.
#include <gtest/gtest.h>

#include <vector>

#include "verbs/devx.hpp"

namespace verbs {
namespace {

constexpr uint64_t kCreateMkey = 0x200;
constexpr uint8_t kKlm = 2, kKsm = 3;

/// An indirect key of two regions of 4 KiB that adjoin in memory. Its first address is not the memory's.
class IndirectKeys : public Devx {
 protected:
  static constexpr uint64_t kStart = 0x1000'0000'0800, kPage = 4096;
  using Parts = std::vector<mlx5_wqe_umr_klm_seg>;

  IndirectKeys() {
    CreateQueues(false);
    EXPECT_EQ(Modify(ToInit().Set("qpc", "qpc.rae", 1).Set("qpc", "qpc.atomic_mode", 3)), 0);
    EXPECT_EQ(Modify(ToRtr()), 0);
    EXPECT_EQ(Modify(ToRts()), 0);
  }
  Mr Register(size_t offset, size_t bytes = kPage) {
    return Mr(ibv_reg_mr(pd.get(), static_cast<uint8_t*>(region.pointer()) + offset, bytes, kAllAccess));
  }
  static mlx5_wqe_umr_klm_seg Part(const Mr& mr, uint32_t bytes = kPage) {
    return {.byte_count = htobe32(bytes),
            .mkey = htobe32(mr->lkey),
            .address = htobe64(reinterpret_cast<uint64_t>(mr->addr))};
  }
  Mailbox KeyCommand(uint8_t mode, const Parts& parts, uint64_t bytes) const {
    Mailbox in("create_mkey_in", kCreateMkey);
    const auto set = [&](const char* field, uint64_t value) {
      in.Set("memory_key_mkey_entry", field, value);
    };
    set("mkc.access_mode_1_0", mode);
    for (const char* const right : {"mkc.a", "mkc.rw", "mkc.rr", "mkc.lw", "mkc.lr"}) set(right, 1);
    set("mkc.pd", pdn);
    set("mkc.qpn", 0xffffff);
    set("mkc.mkey_7_0", 0x5a);
    set("mkc.start_addr", kStart);
    set("mkc.len", bytes);
    set("mkc.log_page_size", 12);
    set("mkc.translations_octword_size", parts.size());
    in.Set("translations_octword_actual_size", parts.size());
    return in.Append(parts.data(), parts.size() * sizeof parts[0]);
  }
  void CreateKey(const Mailbox& in) {
    key = Create(in, Mailbox("create_mkey_out"));
    ASSERT_NE(key, nullptr) << "status " << int{status};
    rkey = static_cast<uint32_t>(answer.Get("mkey_index") << 8 | 0x5a);
  }
  uint8_t Refusal(const Mailbox& in) {
    EXPECT_EQ(Create(in, Mailbox("create_mkey_out")), nullptr);
    return status;
  }
  /// Posts, waits for the completion and returns its opcode.
  template <class... Segments>
  uint8_t Run(const Entry& entry, uint64_t offset, const Segments&... segments) {
    const mlx5_wqe_raddr_seg remote{.raddr = htobe64(kStart + offset), .rkey = htobe32(rkey), .reserved = 0};
    constexpr size_t kWqeBytes = (sizeof(mlx5_wqe_ctrl_seg) + ... + sizeof segments) + sizeof remote;
    Post(next, entry, remote, segments...);
    next = static_cast<uint16_t>(next + (kWqeBytes + 63) / 64);
    const uint8_t opcode = Opcode(WaitInRing(completed++));
    Store(kCqRecord, htobe32(completed));
    return opcode;
  }
  template <class T>
  T& Word(size_t offset) {
    return *reinterpret_cast<T*>(region.data() + offset);
  }

  Memory region{4 * kPage};
  Mr first = Register(0), second = Register(kPage);
  Object key;
  uint32_t rkey = 0, completed = 0;
  uint16_t next = 0;
};

struct KeyMode {
  const char* name;
  uint8_t mode;
};
class IndirectKeysOfBothModes : public IndirectKeys, public testing::WithParamInterface<KeyMode> {};
INSTANTIATE_TEST_SUITE_P(By, IndirectKeysOfBothModes,
                         testing::Values(KeyMode{"Klm", kKlm}, KeyMode{"Ksm", kKsm}),
                         [](const auto& mode) { return mode.param.name; });

TEST_P(IndirectKeysOfBothModes, SpanTheRegionsTheyAreMadeOf) {
  CreateKey(KeyCommand(GetParam().mode, {Part(first), Part(second)}, 2 * kPage));
  data.Put(0, "across two regions");
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, kPage - 6, Local(0, 18)), MLX5_CQE_REQ);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(region.data()) + kPage - 6, 18), "across two regions");
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_READ}, kPage - 6, Local(100, 18)), MLX5_CQE_REQ);
  EXPECT_EQ(data.Text(100, 18), "across two regions");
}

TEST_P(IndirectKeysOfBothModes, EndAtTheirLastByte) {
  CreateKey(KeyCommand(GetParam().mode, {Part(first), Part(second)}, 2 * kPage - 8));
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, 2 * kPage - 16, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, 2 * kPage - 15, Local(0, 8)), MLX5_CQE_REQ_ERR);
}

TEST_F(IndirectKeys, HavePartsOfUnequalSizes) {
  const Mr rest = Register(1000);
  CreateKey(KeyCommand(kKlm, {Part(first, 1000), Part(rest, 3000)}, 4000));
  data.Put(0, "unequal!");
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, 996, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(region.data()) + 996, 8), "unequal!");
}

TEST_F(IndirectKeys, ServeTheProgramAsLkeys) {
  CreateKey(KeyCommand(kKsm, {Part(first), Part(second)}, 2 * kPage));
  Word<uint64_t>(kPage) = 0x1122334455667788;
  mlx5_wqe_data_seg local{};
  mlx5dv_set_data_seg(&local, 8, rkey, kStart + kPage);
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, 64, local), MLX5_CQE_REQ);
  EXPECT_EQ(Word<uint64_t>(64), 0x1122334455667788u);
}

TEST_F(IndirectKeys, ReachNoFurtherThanTheirRegions) {
  const Mr half = Register(kPage, kPage / 2);
  CreateKey(KeyCommand(kKsm, {Part(first), Part(half)}, 2 * kPage));
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, kPage + kPage / 2 - 8, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, kPage + kPage / 2, Local(0, 8)), MLX5_CQE_REQ_ERR);
}

TEST_F(IndirectKeys, CloseWhenARegionIsDeregistered) {
  CreateKey(KeyCommand(kKsm, {Part(first), Part(second)}, 2 * kPage));
  second.reset();
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, 0, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, kPage, Local(0, 8)), MLX5_CQE_REQ_ERR);
}

TEST_F(IndirectKeys, CloseWhenTheyAreDestroyed) {
  CreateKey(KeyCommand(kKsm, {Part(first)}, kPage));
  key.reset();
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, 0, Local(0, 8)), MLX5_CQE_REQ_ERR);
}

TEST_F(IndirectKeys, HavePartsAnywhere) {
  const Mr distant = Register(3 * kPage);
  CreateKey(KeyCommand(kKsm, {Part(distant), Part(first)}, 2 * kPage));
  data.Put(0, "apart in memory");
  EXPECT_EQ(Run({MLX5_OPCODE_RDMA_WRITE}, kPage - 6, Local(0, 15)), MLX5_CQE_REQ);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(region.data()) + 4 * kPage - 6, 6), "apart ");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(region.data()), 9), "in memory");
}

TEST_F(IndirectKeys, AreRefusedIfTheirPartsAreWrong) {
  EXPECT_EQ(Refusal(KeyCommand(kKsm, {Part(first), Part(second)}, 2 * kPage + 1)), kBadParameter);
  EXPECT_EQ(Refusal(KeyCommand(kKlm, {Part(first, 8)}, 9)), kBadParameter);
  EXPECT_EQ(Refusal(KeyCommand(kKsm, {}, 0)), kBadParameter);
  Parts unknown{Part(first)};
  unknown[0].mkey = htobe32(first->lkey + 1);
  EXPECT_EQ(Refusal(KeyCommand(kKsm, unknown, kPage)), kBadParameter);
  const Mailbox longer =
      KeyCommand(kKsm, {Part(first)}, kPage).Set("memory_key_mkey_entry", "mkc.translations_octword_size", 2);
  EXPECT_EQ(Refusal(longer), kBadParameter);
}

/// Operands of extended atomics as libmlx5's users write them, big-endian.
struct Swap8 {
  uint64_t swap, compare, swap_mask, compare_mask;
};
struct Add8 {
  uint64_t add, boundary;
};
struct Swap4 {
  uint32_t swap, compare, swap_mask, compare_mask;
};
struct Add4 {
  uint32_t add, boundary, reserved[2];
};

class AtomicsByIndirectKeys : public IndirectKeys {
 protected:
  static constexpr uint8_t kFourBytes = 0x08, kEightBytes = 0x09;

  AtomicsByIndirectKeys() { CreateKey(KeyCommand(kKsm, {Part(first), Part(second)}, 2 * kPage)); }
};

TEST_F(AtomicsByIndirectKeys, AddAndCompareAndSwap) {
  Word<uint64_t>(kPage) = 40;
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_FA}, kPage, Add8{htobe64(2), 0}, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(data.As<uint64_t>(), 40u);
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_CS}, kPage, Add8{htobe64(7), htobe64(42)}, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(data.As<uint64_t>(), 42u);
  EXPECT_EQ(Word<uint64_t>(kPage), 7u);
}

TEST_F(AtomicsByIndirectKeys, SwapEightBytesWhateverTheyAre) {
  Word<uint64_t>(8) = 0x0123456789abcdef;
  const Swap8 operands{htobe64(0xfedcba9876543210), 0, ~uint64_t{0}, 0};
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_MASKED_CS, kEightBytes}, 8, operands, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(data.As<uint64_t>(), 0x0123456789abcdefu);
  EXPECT_EQ(Word<uint64_t>(8), 0xfedcba9876543210u);
}

TEST_F(AtomicsByIndirectKeys, SwapAndCompareOnlyMaskedBits) {
  Word<uint64_t>(0) = 0x1111222233334444;
  const Swap8 eight{htobe64(0xaaaabbbbccccdddd), htobe64(0x4444), htobe64(0xffff0000), htobe64(0xffff)};
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_MASKED_CS, kEightBytes}, 0, eight, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(Word<uint64_t>(0), 0x11112222cccc4444u);
  Word<uint32_t>(12) = 0x55556666;
  const Swap4 four{htobe32(0xeeeeffff), htobe32(0x5555'0000), htobe32(0xff), htobe32(0xffff'0000)};
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_MASKED_CS, kFourBytes}, 12, four, Local(0, 4)), MLX5_CQE_REQ);
  EXPECT_EQ(be32toh(data.As<uint32_t>()), 0x55556666u);
  EXPECT_EQ(Word<uint32_t>(12), 0x555566ffu);
}

TEST_F(AtomicsByIndirectKeys, AddFieldsWithoutTheirCarries) {
  Word<uint64_t>(0) = 0x00000001'ffffffff;
  const Add8 eight{htobe64(0x00000001'00000001), htobe64(0x80000000'80000000)};
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_MASKED_FA, kEightBytes}, 0, eight, Local(0, 8)), MLX5_CQE_REQ);
  EXPECT_EQ(Word<uint64_t>(0), 0x00000002'00000000u);
  Word<uint32_t>(4) = 41;
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_MASKED_FA, kFourBytes}, 4, Add4{htobe32(1), 0, {}}, Local(0, 4)),
            MLX5_CQE_REQ);
  EXPECT_EQ(be32toh(data.As<uint32_t>()), 41u);
  EXPECT_EQ(Word<uint32_t>(4), 42u);
}

TEST_F(AtomicsByIndirectKeys, EndAtAWrongOpcodeModifier) {
  const Swap8 operands{0, 0, ~uint64_t{0}, 0};
  EXPECT_EQ(Run({MLX5_OPCODE_ATOMIC_MASKED_CS, 0x0a}, 8, operands, Local(0, 8)), MLX5_CQE_REQ_ERR);
}

TEST_F(Devx, ReportsIndirectKeysAndTheAtomicsByWhichUcxSwaps) {
  Mailbox in("query_hca_cap_in", 0x100), out("query_hca_cap_out");
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(out.Get("capability", "cmd_hca_cap.fixed_buffer_size"), 1u);
  in.Set("op_mod", 3 << 1 | 1);  // atomics
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(out.Get("capability", "atomic_caps.atomic_operations"), 0xfu);
  EXPECT_EQ(out.Get("capability", "atomic_caps.atomic_size_qp"), 4u | 8u);
}

}  // namespace
}  // namespace verbs
