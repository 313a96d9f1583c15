#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "warpverbs/host/memory.hpp"

namespace warpverbs::host {
namespace {

const void* Place(uint64_t address) { return reinterpret_cast<const void*>(address); }

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr MemoryView kView{
    .addr = 0x1000, .bytes = 64, .lkey = 1, .rkey = 2, .access = {.remote_read = true}};

TEST(MemoryView, PartsKeepKeysAndAccess) {
  const MemoryView part = kView.Subrange(16, 8);
  EXPECT_EQ(part.addr, 0x1010);
  EXPECT_EQ(part.bytes, 8);
  EXPECT_EQ(part.lkey, 1);
  EXPECT_EQ(part.rkey, 2);
  EXPECT_TRUE(part.access.remote_read);
}

TEST(MemoryView, PartsOfPartsStayInsideThePart) {
  const MemoryView part = kView.Subrange(16, 8);
  EXPECT_EQ(part.Subrange(4, 4).addr, 0x1014);
  EXPECT_THROW(part.Subrange(4, 5), std::out_of_range);
}

TEST(MemoryView, AllowsTheWholeAndAnEmptyPartAtTheEnd) {
  EXPECT_EQ(kView.Subrange(0, 64).bytes, 64);
  EXPECT_EQ(kView.Subrange(64, 0).addr, 0x1040);
}

TEST(MemoryView, RejectsPartsOutside) {
  EXPECT_THROW(kView.Subrange(0, 65), std::out_of_range);
  EXPECT_THROW(kView.Subrange(1, 64), std::out_of_range);
  EXPECT_THROW(kView.Subrange(65, 0), std::out_of_range);
}

TEST(MemoryView, RejectsOverflowingSums) {
  EXPECT_THROW(kView.Subrange(kMax, 1), std::out_of_range);
  EXPECT_THROW(kView.Subrange(1, kMax), std::out_of_range);
  EXPECT_THROW(kView.Subrange(kMax, kMax), std::out_of_range);
  EXPECT_THROW(kView.Subrange(32, kMax - 31), std::out_of_range);
}

TEST(MemoryView, TakesPartsFromEitherEnd) {
  EXPECT_EQ(kView.First(16).addr, 0x1000);
  EXPECT_EQ(kView.Last(16).addr, 0x1030);
  EXPECT_EQ(kView.Last(16).bytes, 16);
  EXPECT_EQ(kView.Last(0).addr, 0x1040);
  EXPECT_THROW(kView.First(65), std::out_of_range);
  EXPECT_THROW(kView.Last(kMax), std::out_of_range);
}

TEST(MemoryView, FindsPartsByAddress) {
  EXPECT_EQ(kView.SubrangeAt(Place(0x1010), 8).addr, 0x1010);
  EXPECT_EQ(kView.SubrangeAt(Place(0x1010), 8).lkey, 1);
  EXPECT_EQ(kView.SubrangeAt(Place(0x1040), 0).bytes, 0);
  EXPECT_THROW(kView.SubrangeAt(Place(0xfff), 1), std::out_of_range);
  EXPECT_THROW(kView.SubrangeAt(Place(0x103f), 2), std::out_of_range);
  EXPECT_THROW(kView.SubrangeAt(nullptr, 0), std::out_of_range);
}

TEST(MemoryView, NamesThePartThatIsOutside) {
  const auto why = [](auto refused) -> std::string {
    try {
      refused();
    } catch (const std::out_of_range& error) {
      return error.what();
    }
    return "it was accepted";
  };
  EXPECT_EQ(why([] { kView.Subrange(60, 8); }),
            "memory view: 8 bytes at offset 60 are not within 64 bytes at 0x1000");
  EXPECT_EQ(why([] { kView.SubrangeAt(Place(0x2000), 8); }),
            "memory view: 8 bytes at 0x2000 are not within 64 bytes at 0x1000");
  EXPECT_EQ(why([] { kView.Last(65); }),
            "memory view: 65 bytes at its end are not within 64 bytes at 0x1000");
}

TEST(MemoryView, ShrinksPieceByPieceAndResets) {
  MemoryView rest = kView;
  EXPECT_EQ(rest.TakeFirst(16).addr, 0x1000);
  EXPECT_EQ(rest.TakeLast(8).addr, 0x1038);
  rest.Advance(4);
  rest.Subtract(4);
  EXPECT_EQ(rest.addr, 0x1014);
  EXPECT_EQ(rest.bytes, 32);
  EXPECT_EQ(rest.rkey, 2);
  rest.Reset();
  EXPECT_EQ(rest.addr, 0x1000);
  EXPECT_EQ(rest.bytes, 64);
}

TEST(MemoryView, ResetOfAPartRestoresOnlyThatPart) {
  MemoryView rest = kView;
  rest.Advance(16);
  MemoryView part = rest.TakeFirst(8);
  part.Advance(8);
  EXPECT_EQ(part.bytes, 0);
  part.Reset();
  EXPECT_EQ(part.addr, 0x1010);
  EXPECT_EQ(part.bytes, 8);
}

TEST(MemoryView, IsUnchangedAfterARejectedCut) {
  MemoryView rest = kView;
  rest.Advance(60);
  EXPECT_THROW(rest.Advance(5), std::out_of_range);
  EXPECT_THROW(rest.Subtract(5), std::out_of_range);
  EXPECT_THROW(rest.TakeFirst(5), std::out_of_range);
  EXPECT_THROW(rest.TakeLast(kMax), std::out_of_range);
  EXPECT_EQ(rest.addr, 0x103c);
  EXPECT_EQ(rest.bytes, 4);
  rest.Reset();
  EXPECT_EQ(rest.bytes, 64);
}

}  // namespace
}  // namespace warpverbs::host
