#include "core/wqe_reader.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/connected_pair.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

DeviceConfig DeviceOfShortMessages() {
  DeviceConfig device = TestDevice();
  device.log_max_message = 12;
  return device;
}

class WqeReaderTest : public ConnectedPair {
 protected:
  WqeReaderTest() : ConnectedPair(DeviceOfShortMessages()) {}

  /// Posts a WQE and reads it.
  Syndrome Read(const WqeBuilder& builder) {
    const uint32_t before = posted;
    a.Post(builder);
    posted += static_cast<uint32_t>(builder.Build(0, 0).size() / mlx5::kWqebbBytes);
    a.qp().send_index = before;
    return wqe.Read(a.qp(), a.qp().send_index, posted - before);
  }
  std::string Payload() const {
    std::string text;
    for (const Bytes& piece : wqe.request().local) text.append(piece.begin(), piece.end());
    return text;
  }
  WqeBuilder Atomic(WqeOpcode opcode, uint8_t opmod = 0) {
    return WqeBuilder(opcode, opmod).Remote(remote.Address(), remote.key);
  }

  uint32_t posted = 0;
  SendWqe wqe;
};

TEST_F(WqeReaderTest, ReadsAWrite) {
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kRdmaWrite)
                     .Remote(remote.Address(8), remote.key)
                     .Data(local.Address(16), 100, local.key)),
            Syndrome::kNone);
  const Request& request = wqe.request();
  EXPECT_EQ(request.opcode, WqeOpcode::kRdmaWrite);
  EXPECT_EQ(request.remote_address, remote.Address(8));
  EXPECT_EQ(request.rkey, remote.key);
  EXPECT_EQ(request.bytes, 100u);
  ASSERT_EQ(request.local.size(), 1u);
  EXPECT_EQ(request.local[0].data(), local.memory.data() + 16);
  EXPECT_EQ(wqe.wqebbs(), 1u);
  EXPECT_TRUE(wqe.entry().signalled);
}

TEST_F(WqeReaderTest, TreatsEveryModeThatWaitsForReadsAsAFence) {
  for (const auto& [mode, fenced] :
       {std::pair{0x00, false}, {0x20, false}, {0x40, true}, {0x60, true}, {0x80, true}}) {
    EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kNop).Flags(static_cast<uint8_t>(mode))), Syndrome::kNone);
    EXPECT_EQ(wqe.fenced(), fenced) << mode;
  }
}

TEST_F(WqeReaderTest, ReadsImmediateAndSolicitedFlag) {
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kRdmaWriteImm)
                     .Remote(remote.Address(), remote.key)
                     .Imm(ToBe32(77))
                     .Flags(mlx5::kSolicited)),
            Syndrome::kNone);
  EXPECT_EQ(wqe.request().imm, ToBe32(77));
  EXPECT_TRUE(wqe.request().solicited);
  EXPECT_FALSE(wqe.entry().signalled);
  EXPECT_EQ(wqe.request().bytes, 0u);
}

TEST_F(WqeReaderTest, SendHasNoRemoteAddress) {
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kSend).Data(local.Address(), 8, local.key)), Syndrome::kNone);
  EXPECT_EQ(wqe.request().bytes, 8u);
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kSendImm).Imm(ToBe32(1))), Syndrome::kNone);
}

TEST_F(WqeReaderTest, ReadsANopWithoutSegments) {
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kNop)), Syndrome::kNone);
  EXPECT_EQ(wqe.opcode(), WqeOpcode::kNop);
}

TEST_F(WqeReaderTest, ResponseNeedsWritableLocalMemory) {
  const Region constant(hca, pd, 64, kAccessRemoteRead);
  const auto takes_response = [&](uint32_t lkey, uint64_t address) {
    EXPECT_EQ(
        Read(WqeBuilder(WqeOpcode::kRdmaRead).Remote(remote.Address(), remote.key).Data(address, 8, lkey)),
        Syndrome::kNone)
        << "the request itself does not depend on it";
    const bool found = wqe.FindResponseMemory(a.qp());
    EXPECT_EQ(wqe.request().takes_response, found);
    return found;
  };
  EXPECT_TRUE(takes_response(local.key, local.Address()));
  EXPECT_EQ(wqe.request().local.front().data(), local.memory.data());
  EXPECT_FALSE(takes_response(constant.key, constant.Address()));
}

TEST_F(WqeReaderTest, GathersSeveralSegments) {
  std::memcpy(local.memory.data(), "abcdefgh", 8);
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kSend)
                     .Data(local.Address(4), 2, local.key)
                     .Data(local.Address(0), 1, local.key)
                     .Inline("xyz")
                     .Data(local.Address(7), 1, local.key)),
            Syndrome::kNone);
  EXPECT_EQ(Payload(), "efaxyzh");
  EXPECT_EQ(wqe.request().bytes, 7u);
  EXPECT_EQ(wqe.wqebbs(), 2u);
}

TEST_F(WqeReaderTest, ReadsInlineDataOfEverySize) {
  for (size_t bytes = 0; bytes <= 15 * 60; bytes += 29) {
    const std::string text(bytes, static_cast<char>('a' + bytes % 26));
    ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kSend).Inline(text)), Syndrome::kNone) << bytes;
    ASSERT_EQ(Payload(), text);
  }
}

TEST_F(WqeReaderTest, ReadsAWqeThatWrapsAroundTheRing) {
  const std::string text(200, 'w');
  Read(WqeBuilder(WqeOpcode::kNop));
  a.Skip(14);  // the last slot of 16
  posted += 14;
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kSend).Inline(text)), Syndrome::kNone);
  EXPECT_EQ(wqe.wqebbs(), 4u);
  EXPECT_EQ(Payload(), text);
}

TEST_F(WqeReaderTest, ReadsAFetchAdd) {
  ASSERT_EQ(Read(Atomic(WqeOpcode::kAtomicFa)
                     .Add(mlx5::AtomicSegment{ToBe64(5), {}})
                     .Data(local.Address(), 8, local.key)),
            Syndrome::kNone);
  const AtomicOperands& atomic = wqe.request().atomic;
  EXPECT_EQ(atomic.bytes, 8u);
  EXPECT_FALSE(atomic.compare_swap);
  EXPECT_EQ(atomic.swap_add, 5u);
  EXPECT_EQ(atomic.boundary, 0u);
}

TEST_F(WqeReaderTest, ReadsACompareSwap) {
  ASSERT_EQ(Read(Atomic(WqeOpcode::kAtomicCs)
                     .Add(mlx5::AtomicSegment{ToBe64(6), ToBe64(7)})
                     .Data(local.Address(), 8, local.key)),
            Syndrome::kNone);
  const AtomicOperands& atomic = wqe.request().atomic;
  EXPECT_TRUE(atomic.compare_swap);
  EXPECT_EQ(atomic.swap_add, 6u);
  EXPECT_EQ(atomic.compare, 7u);
  EXPECT_EQ(atomic.swap_mask, ~uint64_t{0});
  EXPECT_EQ(atomic.compare_mask, ~uint64_t{0});
}

TEST_F(WqeReaderTest, ReadsAMaskedCompareSwapOf4Bytes) {
  ASSERT_EQ(Read(Atomic(WqeOpcode::kAtomicMaskedCs, kExtended4)
                     .Add(mlx5::MaskedCompareSwap4Segment{ToBe32(1), ToBe32(2), ToBe32(3), ToBe32(4)})
                     .Data(local.Address(), 4, local.key)),
            Syndrome::kNone);
  const AtomicOperands& atomic = wqe.request().atomic;
  EXPECT_EQ(atomic.bytes, 4u);
  EXPECT_EQ(atomic.swap_add, 1u);
  EXPECT_EQ(atomic.compare, 2u);
  EXPECT_EQ(atomic.swap_mask, 3u);
  EXPECT_EQ(atomic.compare_mask, 4u);
}

TEST_F(WqeReaderTest, ReadsAMaskedCompareSwapOf8Bytes) {
  ASSERT_EQ(Read(Atomic(WqeOpcode::kAtomicMaskedCs, kExtended8)
                     .Add(mlx5::MaskedCompareSwap8Segment{ToBe64(1), ToBe64(2), ToBe64(3), ToBe64(4)})
                     .Data(local.Address(), 8, local.key)),
            Syndrome::kNone);
  const AtomicOperands& atomic = wqe.request().atomic;
  EXPECT_EQ(atomic.bytes, 8u);
  EXPECT_EQ(atomic.swap_add, 1u);
  EXPECT_EQ(atomic.compare, 2u);
  EXPECT_EQ(atomic.swap_mask, 3u);
  EXPECT_EQ(atomic.compare_mask, 4u);
  EXPECT_EQ(wqe.wqebbs(), 2u);
}

TEST_F(WqeReaderTest, ReadsMaskedFetchAddsOf4And8Bytes) {
  ASSERT_EQ(Read(Atomic(WqeOpcode::kAtomicMaskedFa, kExtended4)
                     .Add(mlx5::MaskedFetchAdd4Segment{ToBe32(1), ToBe32(0x80), {}})
                     .Data(local.Address(), 4, local.key)),
            Syndrome::kNone);
  EXPECT_EQ(wqe.request().atomic.bytes, 4u);
  EXPECT_EQ(wqe.request().atomic.boundary, 0x80u);
  ASSERT_EQ(Read(Atomic(WqeOpcode::kAtomicMaskedFa, kExtended8)
                     .Add(mlx5::MaskedFetchAdd8Segment{ToBe64(1), ToBe64(0x8000)})
                     .Data(local.Address(), 8, local.key)),
            Syndrome::kNone);
  EXPECT_EQ(wqe.request().atomic.bytes, 8u);
  EXPECT_EQ(wqe.request().atomic.boundary, 0x8000u);
}

TEST_F(WqeReaderTest, RefusesAnAtomicWithAWrongOpcodeModifier) {
  const mlx5::AtomicSegment operands{};
  EXPECT_EQ(Read(Atomic(WqeOpcode::kAtomicFa, kExtended8).Add(operands).Data(local.Address(), 8, local.key)),
            Syndrome::kLocalQpOperation);
  EXPECT_EQ(Read(Atomic(WqeOpcode::kAtomicMaskedFa).Add(operands).Data(local.Address(), 8, local.key)),
            Syndrome::kLocalQpOperation);
}

TEST_F(WqeReaderTest, RefusesAnAtomicWithABufferOfAnotherLength) {
  const mlx5::AtomicSegment operands{};
  EXPECT_EQ(Read(Atomic(WqeOpcode::kAtomicFa).Add(operands).Data(local.Address(), 4, local.key)),
            Syndrome::kLocalLength);
  EXPECT_EQ(Read(Atomic(WqeOpcode::kAtomicFa).Add(operands).Data(local.Address(), 16, local.key)),
            Syndrome::kLocalLength);
  EXPECT_EQ(Read(Atomic(WqeOpcode::kAtomicFa).Add(operands)), Syndrome::kLocalLength);
}

TEST_F(WqeReaderTest, RefusesAnUnknownOpcode) {
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kUmr)), Syndrome::kLocalQpOperation);
  EXPECT_EQ(Read(WqeBuilder(static_cast<WqeOpcode>(0xff))), Syndrome::kLocalQpOperation);
}

TEST_F(WqeReaderTest, RefusesAWqeOfAnotherIndex) {
  a.Post(WqeBuilder(WqeOpcode::kNop));
  a.qp().send_index = 16;  // same slot, one round later
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 1), Syndrome::kLocalQpOperation);
  EXPECT_EQ(wqe.index(), 16) << "the slot decides the index, not its contents";
}

TEST_F(WqeReaderTest, RefusesAWqeOfAnotherQueuePair) {
  const std::vector<uint8_t> foreign = WqeBuilder(WqeOpcode::kNop).Build(0, b.qpn);
  std::memcpy(a.SendSlot(0), foreign.data(), foreign.size());
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 1), Syndrome::kLocalQpOperation);
}

TEST_F(WqeReaderTest, RefusesAWqeWithoutLength) {
  a.Post(WqeBuilder(WqeOpcode::kNop));
  const mlx5::Be32 qpn_ds = ToBe32(a.qpn << 8);
  std::memcpy(a.SendSlot(0) + offsetof(mlx5::CtrlSegment, qpn_ds), &qpn_ds, sizeof qpn_ds);
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 1), Syndrome::kLocalQpOperation);
  EXPECT_EQ(wqe.wqebbs(), 1u) << "it still occupies its slot";
}

TEST_F(WqeReaderTest, RefusesAWqeThatEndsPastTheRecord) {
  a.Post(WqeBuilder(WqeOpcode::kSend).Inline(std::string(200, 'x')));
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 3), Syndrome::kLocalQpOperation);
  EXPECT_LE(wqe.wqebbs(), 3u) << "blocks past the record cannot be consumed";
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 4), Syndrome::kNone);
}

TEST_F(WqeReaderTest, RefusesARecordMoreThanARingAhead) {
  a.Post(WqeBuilder(WqeOpcode::kNop));
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 16), Syndrome::kNone);
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 17), Syndrome::kLocalQpOperation);
}

TEST_F(WqeReaderTest, RefusesAWqeWithoutItsSegments) {
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kRdmaWrite)), Syndrome::kLocalQpOperation);
  EXPECT_EQ(Read(Atomic(WqeOpcode::kAtomicCs)), Syndrome::kLocalQpOperation);
  EXPECT_EQ(Read(Atomic(WqeOpcode::kAtomicMaskedCs, kExtended8).Add(mlx5::AtomicSegment{})),
            Syndrome::kLocalQpOperation);
}

TEST_F(WqeReaderTest, RefusesInlineDataPastTheEndOfTheWqe) {
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kSend)
                     .Add(mlx5::DataSegment{ToBe32(mlx5::kInlineFlag | 13), ToBe32(0), ToBe64(0)})),
            Syndrome::kLocalQpOperation);
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kSend)
                     .Add(mlx5::DataSegment{ToBe32(mlx5::kInlineFlag | 12), ToBe32(0), ToBe64(0)})),
            Syndrome::kNone);
}

TEST_F(WqeReaderTest, RefusesInlineDataAsTheTargetOfARead) {
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kRdmaRead).Remote(remote.Address(), remote.key).Inline("12345678")),
            Syndrome::kLocalQpOperation);
}

TEST_F(WqeReaderTest, RefusesAMessageLongerThanThePortAllows) {
  const auto send = [&](uint32_t first, uint32_t second) {
    return Read(WqeBuilder(WqeOpcode::kSend)
                    .Data(local.Address(), first, local.key)
                    .Data(local.Address(), second, local.key));
  };
  EXPECT_EQ(send(4000, 96), Syndrome::kNone);
  EXPECT_EQ(send(4000, 97), Syndrome::kLocalLength);
}

TEST_F(WqeReaderTest, TakesLengthZeroOfADataSegmentAsTwoGibibytes) {
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kSend).Data(local.Address(), 0, local.key)), Syndrome::kLocalLength);
}

TEST_F(WqeReaderTest, RefusesLocalMemoryOutsideTheKey) {
  const auto send = [&](uint64_t address, uint32_t bytes, uint32_t lkey) {
    return Read(WqeBuilder(WqeOpcode::kSend).Data(address, bytes, lkey));
  };
  const Region foreign(hca, hca.AllocPd(), 64);
  EXPECT_EQ(send(local.Address(local.memory.size() - 8), 8, local.key), Syndrome::kNone);
  EXPECT_EQ(send(local.Address(local.memory.size() - 8), 9, local.key), Syndrome::kLocalProtection);
  EXPECT_EQ(send(local.Address(), 8, local.key + 1), Syndrome::kLocalProtection);
  EXPECT_EQ(send(foreign.Address(), 8, foreign.key), Syndrome::kLocalProtection);
}

class AtomicsOffTest : public ConnectedPair {
 protected:
  AtomicsOffTest()
      : ConnectedPair([] {
          DeviceConfig device = TestDevice();
          device.atomics = false;
          return device;
        }()) {}
};

TEST_F(AtomicsOffTest, RefusesAtomics) {
  a.Post(WqeBuilder(WqeOpcode::kAtomicFa)
             .Remote(remote.Address(), remote.key)
             .Add(mlx5::AtomicSegment{})
             .Data(local.Address(), 8, local.key));
  SendWqe wqe;
  EXPECT_EQ(wqe.Read(a.qp(), a.qp().send_index, 1), Syndrome::kLocalQpOperation);
}

}  // namespace
}  // namespace softhca
