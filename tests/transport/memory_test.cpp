#include "warpverbs/transport/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <stdexcept>
#include <type_traits>
#include <vector>

#include "pair.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::transport {
namespace {

static_assert(!std::is_copy_constructible_v<RdmaMemory> && std::is_nothrow_move_constructible_v<RdmaMemory>);
static_assert(!std::is_copy_assignable_v<RdmaMemory> && std::is_nothrow_move_assignable_v<RdmaMemory>);

TEST(RdmaMemory, ReportsItsRangeDeviceAndKeys) {
  Buffer buffer(4096);
  EXPECT_EQ(buffer.memory.data(), buffer.bytes.data());
  EXPECT_EQ(buffer.memory.size(), 4096u);
  EXPECT_EQ(buffer.memory.GetDevice(), 0);
  EXPECT_NE(buffer.memory.LocalKey(), 0u);
  EXPECT_EQ(buffer.memory.RemoteKey().nics, 1);
  EXPECT_NE(buffer.memory.RemoteKey().rkeys[0], 0u);
  EXPECT_THROW(static_cast<void>(buffer.memory.LocalKey(1)), std::out_of_range);
}

TEST(RdmaMemory, RegistersConstMemoryForReadingOnly) {
  void* const pages = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  {
    const void* const constant = pages;
    const RdmaMemory memory(constant, 4096, 0);
    EXPECT_EQ(memory.CreateView().data(), constant);
    EXPECT_EQ(memory.Remote().len, 4096u);
    EXPECT_THROW(memory.CreateMutableView(), std::invalid_argument);
    EXPECT_THROW(memory.CreateMutableView(size_t{0}, 1), std::invalid_argument);
  }
  munmap(pages, 4096);
}

TEST(RdmaMemory, ContainsExactlyItsRange) {
  Buffer buffer(4096);
  const RdmaMemory& memory = buffer.memory;
  const uint8_t* const start = buffer.bytes.data();
  EXPECT_TRUE(memory.Contains(start, 4096));
  EXPECT_TRUE(memory.Contains(start + 4095, 1));
  EXPECT_TRUE(memory.Contains(start + 4096, 0));
  EXPECT_FALSE(memory.Contains(start + 4096, 1));
  EXPECT_FALSE(memory.Contains(start - 1, 1));
  EXPECT_FALSE(memory.Contains(start + 1, ~size_t{0}));
  EXPECT_FALSE(memory.Contains(nullptr, 0));
}

TEST(RdmaMemory, ThrowsForViewsOutside) {
  Buffer buffer(4096);
  const RdmaMemory& memory = buffer.memory;
  const auto view = memory.CreateView(size_t{96}, 4000);
  EXPECT_EQ(view.data(), buffer.bytes.data() + 96);
  EXPECT_EQ(view.size(), 4000u);
  EXPECT_EQ(view->GetDevice(), 0);
  EXPECT_EQ(view->LocalKey(), memory.LocalKey());
  EXPECT_EQ(memory.CreateView(buffer.bytes.data() + 5, 7).data(), buffer.bytes.data() + 5);
  EXPECT_EQ(memory.CreateView(size_t{4096}, 0).size(), 0u) << "an empty view at the end";
  EXPECT_THROW(memory.CreateView(size_t{4096}, 1), std::out_of_range);
  EXPECT_THROW(memory.CreateView(size_t{1}, ~size_t{0}), std::out_of_range) << "the sum overflows";
  EXPECT_THROW(memory.CreateView(~size_t{0}, 2), std::out_of_range);
  EXPECT_THROW(memory.CreateView(buffer.bytes.data() - 1, 1), std::out_of_range);
  EXPECT_THROW(memory.CreateMutableView(buffer.bytes.data() + 4090, 7), std::out_of_range);
  EXPECT_EQ(memory.CreateMutableView().mutable_data(), buffer.bytes.data());
}

TEST(RdmaMemory, TakesALiteralZeroAsAnOffset) {
  Buffer buffer(4096);
  EXPECT_EQ(buffer.memory.CreateView(0, 64).data(), buffer.bytes.data());
  EXPECT_EQ(buffer.memory.CreateMutableView(0, 64).mutable_data(), buffer.bytes.data());
  EXPECT_EQ(buffer.memory.CreateView(static_cast<const void*>(buffer.bytes.data()), 64).data(),
            buffer.bytes.data());
}

TEST(RdmaMemory, IsEmptyWhenMovedFrom) {
  Buffer buffer(4096);
  const auto view = buffer.memory.CreateView();
  const RdmaMemory taken(std::move(buffer.memory));
  const RdmaMemory& left = buffer.memory;  // NOLINT(bugprone-use-after-move): tests the moved-from object
  EXPECT_EQ(left.size(), 0u);
  EXPECT_EQ(left.data(), nullptr);
  EXPECT_FALSE(left.Contains(buffer.bytes.data(), 1));
  EXPECT_THROW(left.CreateView(), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(left.RemoteKey()), std::invalid_argument);
  EXPECT_EQ(view->LocalKey(), taken.LocalKey()) << "views stay valid";
}

TEST(RdmaMemory, ReusesARegistrationOfTheSameRange) {
  Buffer first(4096);
  EXPECT_FALSE(first.memory.Reused());
  const RdmaMemory again(first.bytes.data(), 4096, 0);
  EXPECT_TRUE(again.Reused());
  const RdmaMemory part(first.bytes.data() + 100, 200, 0);
  EXPECT_TRUE(part.Reused());
  EXPECT_EQ(part.LocalKey(), first.memory.LocalKey());
}

TEST(RdmaMemory, NamesTheCauseWhenMemoryDoesNotExist) {
  try {
    const RdmaMemory memory(reinterpret_cast<void*>(0x1000), 4096, 0);
    FAIL() << "registered";
  } catch (const host::Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("register"), testing::HasSubstr("EFAULT")));
  }
}

TEST(RdmaMemory, RefusesInvalidDevicesAndNicCounts) {
  std::vector<uint8_t> bytes(64);
  EXPECT_THROW(RdmaMemory(bytes.data(), bytes.size(), -1), host::Error);
  EXPECT_THROW(RdmaMemory(bytes.data(), bytes.size(), 0, {.max_nics = 0}), host::Error);
  EXPECT_THROW(RdmaMemory(bytes.data(), bytes.size(), 0, {.max_nics = 9}), host::Error);
}

/// The NIC refuses the keys.
TEST(RdmaMemory, IsUnreachableAfterDestruction) {
  Pair pair;
  pair.Connect();
  const Buffer from(4096);
  std::vector<uint8_t> bytes(4096);
  RdmaRemoteBuffer gone;
  {
    const RdmaMemory memory(bytes.data(), bytes.size(), 0);
    gone = memory.Remote();
    EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), gone)));
  }
  EXPECT_THAT(ResultOf(pair.a.Write(from.memory.CreateView(), gone)).Describe(),
              testing::HasSubstr("remote access"));
}

TEST(RdmaRemoteBuffer, InitializesPositionallyAndByName) {
  Buffer buffer(64);
  const RdmaRemoteBuffer positional{buffer.bytes.data(), buffer.memory.RemoteKey()};
  const RdmaRemoteBuffer by_name{.ptr = buffer.bytes.data(), .access_key = buffer.memory.RemoteKey()};
  EXPECT_EQ(positional.ptr, by_name.ptr);
  EXPECT_EQ(positional.len, 0u) << "0: the size is not checked";
  EXPECT_EQ(buffer.memory.Remote().len, 64u);
}

TEST(RdmaRemoteBuffer, WithoutALengthIsNotChecked) {
  Pair pair;
  pair.Connect();
  Buffer from(64), to(64);
  FillPattern(from.bytes, 14);
  const RdmaRemoteBuffer remote{to.bytes.data(), to.memory.RemoteKey()};
  EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), remote)));
  EXPECT_EQ(to.bytes, from.bytes);
}

}  // namespace
}  // namespace warpverbs::transport
