#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "wire/frames.hpp"

namespace softhca {
namespace {

constexpr size_t kIp = 14;

/// Returns the bits that a router or switch may change. A bit's number is its byte in the frame times 8, plus
/// its position in the byte.
std::set<size_t> ChangeableBits(const std::vector<uint8_t>& frame) {
  std::set<size_t> bits;
  const auto add = [&](size_t first_byte, size_t bytes, uint8_t mask = 0xff) {
    for (size_t bit = 8 * first_byte; bit < 8 * (first_byte + bytes); ++bit) {
      if (mask >> bit % 8 & 1) bits.insert(bit);
    }
  };
  const bool ipv4 = frame[12] == 0x08, udp = frame[12] != 0x89;
  add(0, kIp);  // Ethernet's header changes with every hop
  if (ipv4) {
    add(kIp + 1, 1);   // type of service
    add(kIp + 8, 1);   // time to live
    add(kIp + 10, 2);  // checksum
  } else {
    add(kIp, 1, 0x0f);  // traffic class
    add(kIp + 1, 3);    // traffic class, flow label
    add(kIp + 7, 1);    // hop limit
  }
  const size_t transport = kIp + (ipv4 ? 20 : 40) + (udp ? 8 : 0);
  if (udp) add(transport - 2, 2);  // checksum
  add(transport + 4, 1);           // congestion marks
  return bits;
}

class IcrcTest : public testing::TestWithParam<Flow> {
 protected:
  IcrcTest() {
    std::vector<uint8_t> payload(61);
    std::iota(payload.begin(), payload.end(), uint8_t{1});
    frame = MakeFrame(GetParam(), {.op = PacketOp::kWriteOnly, .memory = {0x1000, 1, 61}}, payload);
  }
  bool Accepted() const {
    const std::optional<Frame> parsed = ParseFrame(frame);
    return parsed && IsSealed(*parsed);
  }

  std::vector<uint8_t> frame;
};

TEST_P(IcrcTest, DetectsEveryFlippedBitThatRoutersMustKeep) {
  ASSERT_TRUE(Accepted());
  const std::set<size_t> changeable = ChangeableBits(frame);
  for (size_t bit = 8 * kIp; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(Accepted(), changeable.contains(bit)) << "byte " << bit / 8 << ", bit " << bit % 8;
    frame[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

TEST_P(IcrcTest, CoversTheWholeOfALongPacket) {
  frame = MakeFrame(GetParam(), {.op = PacketOp::kWriteMiddle}, std::vector<uint8_t>(4096, 0xa5));
  ASSERT_TRUE(Accepted());
  for (size_t at = frame.size() - 4096 - kIcrcBytes; at < frame.size(); ++at) {
    frame[at] ^= 1;
    EXPECT_FALSE(Accepted()) << "byte " << at;
    frame[at] ^= 1;
  }
}

TEST_P(IcrcTest, SealsAChangedFrame) {
  frame.at(frame.size() - kIcrcBytes - 4) ^= 1;
  ASSERT_FALSE(Accepted());
  SealFrame(frame);
  EXPECT_TRUE(Accepted());
}

INSTANTIATE_TEST_SUITE_P(, IcrcTest, EveryNetwork(), NetworkName);

}  // namespace
}  // namespace softhca
