#include "queue/completion_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "warpverbs/device/detail/completion.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;

/// A ring of four CQEs that the test writes as the NIC does.
class ErrorAtEndTest : public testing::Test {
 protected:
  static constexpr uint32_t kDepth = 4;

  ErrorAtEndTest() { std::memset(cqes_.data(), 0xff, sizeof cqes_); }

  void Complete(uint32_t number) { Write(number, CqeOpcode::kRequester, Syndrome{}); }
  void Fail(uint32_t number, Syndrome syndrome) { Write(number, CqeOpcode::kRequesterError, syndrome); }

  /// Returns the syndrome that ErrorAtEnd() finds; 0: none.
  uint8_t Found() const {
    const uint64_t word =
        ErrorAtEnd({.cqe = reinterpret_cast<const uint8_t*>(cqes_.data()), .dbrec = nullptr, .depth = kDepth});
    return word == 0 ? 0 : device::ErrorStatus(word).syndrome;
  }

 private:
  void Write(uint32_t number, CqeOpcode opcode, Syndrome syndrome) {
    mlx5::ErrorCqe64& cqe = cqes_[number % kDepth];
    cqe.syndrome = static_cast<uint8_t>(syndrome);
    cqe.wqe_counter = mlx5::ToBe16(static_cast<uint16_t>(number));
    cqe.op_own = static_cast<uint8_t>(static_cast<uint32_t>(opcode) << 4 | (number / kDepth & 1));
  }

  alignas(64) std::array<mlx5::ErrorCqe64, kDepth> cqes_;
};

constexpr auto kCause = static_cast<uint8_t>(Syndrome::kRemoteAccess);

TEST_F(ErrorAtEndTest, FindsNothingOnANewRing) { EXPECT_EQ(Found(), 0); }

TEST_F(ErrorAtEndTest, FindsTheCauseInFrontOfItsFlushes) {
  Complete(0);
  Fail(1, Syndrome::kRemoteAccess);
  Fail(2, Syndrome::kFlushed);
  EXPECT_EQ(Found(), kCause);
}

TEST_F(ErrorAtEndTest, FindsTheCauseAcrossTheRingsEnd) {
  for (uint32_t number = 0; number < 3; ++number) Complete(number);
  Fail(3, Syndrome::kRemoteAccess);
  Fail(4, Syndrome::kFlushed);
  EXPECT_EQ(Found(), kCause);
}

TEST_F(ErrorAtEndTest, FindsACauseThatFillsTheRingWithItsFlushes) {
  for (uint32_t number = 0; number < 4; ++number) Complete(number);
  Fail(4, Syndrome::kRemoteAccess);
  for (uint32_t number = 5; number < 8; ++number) Fail(number, Syndrome::kFlushed);
  EXPECT_EQ(Found(), kCause);
}

/// The copy's slot 0 is older than its other slots.
TEST_F(ErrorAtEndTest, TakesNoFlushWhoseCauseItHasNotRead) {
  for (uint32_t number = 0; number < 4; ++number) Complete(number);
  for (uint32_t number = 5; number < 8; ++number) Fail(number, Syndrome::kFlushed);
  EXPECT_EQ(Found(), 0);
  Fail(4, Syndrome::kRemoteAccess);
  EXPECT_EQ(Found(), kCause);
}

}  // namespace
}  // namespace warpverbs::host
