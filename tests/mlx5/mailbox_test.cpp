#include "warpverbs/mlx5/mailbox.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "warpverbs/mlx5/commands.hpp"

namespace warpverbs::mlx5 {
namespace {

constexpr uint64_t AllOnes(uint32_t width) { return width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1; }

using Words = std::array<Be32, 4>;

// Sets one bit at a time: the slow and obvious way to write a big-endian bit field.
void SetBits(Words& words, uint32_t bit, uint32_t width, uint64_t value) {
  auto* bytes = reinterpret_cast<uint8_t*>(words.data());
  for (uint32_t i = 0; i < width; ++i) {
    const uint32_t at = bit + i;
    const auto mask = static_cast<uint8_t>(0x80 >> at % 8);
    const bool on = value >> (width - 1 - i) & 1;
    bytes[at / 8] = static_cast<uint8_t>(on ? bytes[at / 8] | mask : bytes[at / 8] & ~mask);
  }
}

TEST(Mailbox, SetsOnlyTheBitsOfAFieldOfAnyWidthAtAnyBit) {
  for (uint32_t width = 1; width <= 32; ++width) {
    for (uint32_t bit = 32; bit + width <= 64; ++bit) {
      const Field<uint32_t> field{{"test.field", bit, width}};
      const auto value = static_cast<uint32_t>(0x9e3779b9 & AllOnes(width));
      for (const uint32_t background : {0u, ~0u}) {
        Words words, expected;
        words.fill(Be32{background});
        expected = words;
        SetBits(expected, bit, width, value);
        SetField(std::span<Be32>(words), field, value);
        ASSERT_EQ(words, expected) << "bit " << bit << ", width " << width;
        ASSERT_EQ(GetField(std::span<const Be32>(words), field), value)
            << "bit " << bit << ", width " << width;
      }
    }
  }
}

TEST(Mailbox, Sets64BitsAcrossTwoWords) {
  constexpr uint64_t kValue = 0x0123456789abcdef;
  for (const uint32_t bit : {0u, 32u, 64u}) {
    const Field<uint64_t> field{{"test.field", bit, 64}};
    Words words, expected;
    words.fill(Be32{~0u});
    expected = words;
    SetBits(expected, bit, 64, kValue);
    SetField(std::span<Be32>(words), field, kValue);
    EXPECT_EQ(words, expected) << "bit " << bit;
    EXPECT_EQ(GetField(std::span<const Be32>(words), field), kValue) << "bit " << bit;
  }
}

TEST(Mailbox, KeepsTheTypeOfAField) {
  Mailbox<qpc::kBytes> context;
  context.Set(qpc::kState, QpState::kRts).Set(qpc::kRre, true).Set(qpc::kMtu, Mtu::k4096);
  EXPECT_EQ(context.Get(qpc::kState), QpState::kRts);
  EXPECT_TRUE(context.Get(qpc::kRre));
  EXPECT_FALSE(context.Get(qpc::kRwe));
  EXPECT_EQ(context.Get(qpc::kMtu), Mtu::k4096);
}

TEST(Mailbox, IsBigEndianInMemory) {
  Mailbox<16> mailbox;
  mailbox.Set(command_in::kOpcode, CommandOpcode::kCreateQp).Set(command_in::kObjectNumber, 0x123456);
  const uint8_t expected[16] = {0x05, 0x00, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56};
  EXPECT_EQ(std::memcmp(mailbox.data(), expected, sizeof expected), 0);
}

TEST(Mailbox, CopiesBytesUnchanged) {
  const std::array<uint8_t, 16> gid{0xfe, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  Mailbox<qpc::kBytes> context;
  context.SetBytes(ads::kRgidRip, qpc::kPrimaryAddressPath, gid);
  const auto* bytes = static_cast<const uint8_t*>(context.data());
  EXPECT_EQ(std::memcmp(bytes + (192 + 128) / 8, gid.data(), gid.size()), 0);
  EXPECT_EQ(bytes[(192 + 128) / 8 - 1], 0);
  EXPECT_EQ(bytes[(192 + 256) / 8], 0);
}

TEST(Mailbox, ThrowsAndKeepsItsBytesWhenAValueIsTooWide) {
  for (uint32_t width = 1; width < 32; ++width) {
    Mailbox<8> mailbox;
    const Field<uint32_t> field{{"test.field", 32 - width, width}};
    EXPECT_THROW(mailbox.Set(field, uint32_t{1} << width), std::out_of_range) << "width " << width;
    EXPECT_EQ(mailbox.Get(field), 0u) << "width " << width;
  }
}

TEST(Mailbox, ThrowsWhenAFieldIsPastItsEnd) {
  Mailbox<8> mailbox;
  const Field<uint32_t> past{{"test.past", 64, 8}};
  const Field<uint64_t> half_past{{"test.half_past", 32, 64}};
  EXPECT_THROW(mailbox.Set(past, 1), std::out_of_range);
  EXPECT_THROW(mailbox.Get(past), std::out_of_range);
  EXPECT_THROW(mailbox.Set(half_past, 1), std::out_of_range);
  EXPECT_THROW(mailbox.Get(half_past), std::out_of_range);
}

TEST(Mailbox, ErrorNamesTheField) {
  Mailbox<8> mailbox;
  try {
    mailbox.Set(qpc::kState, static_cast<QpState>(16));
    FAIL() << "16 does not fit in four bits";
  } catch (const std::out_of_range& error) {
    EXPECT_NE(std::string(error.what()).find("qpc.state"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace warpverbs::mlx5
