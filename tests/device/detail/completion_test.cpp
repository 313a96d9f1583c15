#include "warpverbs/device/detail/completion.hpp"

#include <gtest/gtest.h>

#include "../test_queue.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::device {
namespace {

arch::CqeTail TailOf(const TestCqe& content) {
  mlx5::Cqe64 cqe{};
  WriteCqe(cqe, content);
  return arch::Cpu::LoadCqeTail(reinterpret_cast<const uint8_t*>(&cqe) + mlx5::kCqeTailOffset);
}

arch::CqeTail Completed(uint16_t counter) { return TailOf({.wqe_counter = counter}); }

TEST(CqeTail, ShowsOpcodeOwnerAndCounter) {
  const arch::CqeTail tail =
      TailOf({.opcode = mlx5::CqeOpcode::kResponderSendImm, .wqe_counter = 0x1234, .owner = true});
  EXPECT_EQ(Opcode(tail), mlx5::CqeOpcode::kResponderSendImm);
  EXPECT_TRUE(OwnerBit(tail));
  EXPECT_FALSE(OwnerBit(Completed(0x1234)));
  EXPECT_EQ(WqeCounter(tail), 0x1234);
}

TEST(CqeTail, RecognisesErrorsOfEitherSide) {
  EXPECT_TRUE(IsError(TailOf({.opcode = mlx5::CqeOpcode::kRequesterError})));
  EXPECT_TRUE(IsError(TailOf({.opcode = mlx5::CqeOpcode::kResponderError})));
  EXPECT_FALSE(IsError(TailOf({.opcode = mlx5::CqeOpcode::kInvalid}))) << "a CQE that was never written";
  EXPECT_FALSE(IsError(Completed(0)));
}

TEST(CompletedBelow, ExtendsTheCounterFromTheFloor) {
  EXPECT_EQ(CompletedBelow(Completed(9), 5), 10U);
  EXPECT_EQ(CompletedBelow(Completed(9), 10), 10U) << "nothing new";
  EXPECT_EQ(CompletedBelow(Completed(0xffff), 0), 0U) << "a fresh CQE";
  EXPECT_EQ(CompletedBelow(Completed(0xffff), 0U - 64), 0U) << "a fresh CQE beside a fresh queue";
}

TEST(CompletedBelow, WrapsAt16And32Bits) {
  EXPECT_EQ(CompletedBelow(Completed(3), 0xfff0), 0x10004U);
  EXPECT_EQ(CompletedBelow(Completed(3), 0xffff'fff0), 4U);
  EXPECT_EQ(CompletedBelow(Completed(0xfffe), 0xffff'fff0), 0xffff'ffffU);
  EXPECT_EQ(CompletedBelow(Completed(0x2344), 0x7777'2345), 0x7777'2345U);
  EXPECT_EQ(CompletedBelow(Completed(0x2343), 0x7777'2345), 0x7778'2344U) << "the largest step of 16 bits";
}

TEST(ErrorWord, CarriesAllFieldsOfAStatus) {
  const uint64_t word = ErrorWord(TailOf({.opcode = mlx5::CqeOpcode::kRequesterError,
                                          .wqe_counter = 0xabcd,
                                          .syndrome = mlx5::Syndrome::kRemoteAccess,
                                          .wqe_opcode = mlx5::WqeOpcode::kAtomicFa}));
  EXPECT_EQ(word, kErrorValid | uint64_t{0x12} << 32 | 0x1377'abcd);
  const Status status = ErrorStatus(word);
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, 0x13);
  EXPECT_EQ(status.vendor_syndrome, kVendorSyndrome);
  EXPECT_EQ(status.opcode, 0x12);
  EXPECT_EQ(status.wqe_index, 0xabcd);
}

}  // namespace
}  // namespace warpverbs::device
