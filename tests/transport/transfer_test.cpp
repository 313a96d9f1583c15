#include <gtest/gtest.h>

#include "pair.hpp"

/// Writes, reads and notifications between two transports.
namespace warpverbs::transport {
namespace {

struct Transfer : testing::Test {
  Transfer() { pair.Connect(); }

  Pair pair;
};

TEST_F(Transfer, WritesToThePeer) {
  Buffer from(4096), to(4096);
  FillPattern(from.bytes, 1);
  EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote())));
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST_F(Transfer, ReadsFromThePeer) {
  Buffer from(4096), to(4096);
  FillPattern(from.bytes, 2);
  EXPECT_SUCCESS(ResultOf(pair.a.Read(to.memory.CreateMutableView(), from.memory.Remote())));
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST_F(Transfer, NotifiesThePeer) {
  Buffer from(4096), to(4096);
  FillPattern(from.bytes, 3);
  auto arrival = pair.b.WaitForWrite();
  EXPECT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(std::move(arrival)));
  EXPECT_EQ(to.bytes, from.bytes);
}

/// Sizes: empty, odd, whole packets and one byte more, many pieces.
struct AnySize : Transfer, testing::WithParamInterface<size_t> {};

TEST_P(AnySize, ArrivesWholeAndNotifiesOnce) {
  Buffer from(GetParam() + 1), to(GetParam() + 1);
  FillPattern(from.bytes, GetParam());
  std::vector<uint8_t> expected = from.bytes;
  expected.back() = 0;  // not part of the transfers
  auto arrival = pair.b.WaitForWrite();
  auto written =
      pair.a.Write(from.memory.CreateView(size_t{0}, GetParam()), to.memory.Remote(), {.notify = true});
  EXPECT_SUCCESS(ResultOf(std::move(arrival)));
  EXPECT_EQ(to.bytes, expected);
  EXPECT_SUCCESS(ResultOf(std::move(written)));
  EXPECT_FALSE(TakeNotification(pair.b)) << "there was only one";
  Buffer back(GetParam() + 1);
  const RdmaMemory::MutableView view = back.memory.CreateMutableView(size_t{0}, GetParam());
  EXPECT_SUCCESS(ResultOf(pair.a.Read(view, to.memory.Remote())));
  EXPECT_EQ(back.bytes, expected);
}

INSTANTIATE_TEST_SUITE_P(Sizes, AnySize,
                         testing::Values(0, 1, 64, 512, 1024, 4096, 4097, 4098, 8192, 65536, 1 << 20,
                                         64 << 20));

}  // namespace
}  // namespace warpverbs::transport
