#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pair.hpp"

/// Two NICs for one device, with messages of up to 1 MiB.
namespace warpverbs::transport {
namespace {

TransportConfig OnTwoNics() {
  TransportConfig config;
  config.max_nics = 2;
  config.piece_bytes = 64 << 20;  // the device allows less
  return config;
}

TEST(SeveralNics, ShareOneTransfer) {
  Pair pair(OnTwoNics());
  pair.Connect();
  EXPECT_THAT(pair.a.Describe(), testing::AllOf(testing::HasSubstr("mlx5_0"), testing::HasSubstr("mlx5_1")));
  Buffer from((10 << 20) + 1, 0, {.max_nics = 2}), to((10 << 20) + 1, 0, {.max_nics = 2});
  EXPECT_EQ(from.memory.RemoteKey().nics, 2);
  FillPattern(from.bytes, 31);
  auto arrival = pair.b.WaitForWrite();
  auto write = pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true});
  EXPECT_SUCCESS(ResultOf(std::move(arrival)));
  EXPECT_EQ(to.bytes, from.bytes);
  EXPECT_SUCCESS(ResultOf(std::move(write)));
}

TEST(SeveralNics, RequireMemoryRegisteredOnEveryNic) {
  Pair pair(OnTwoNics());
  pair.Connect();
  const Buffer on_one(64), on_two(64, 0, {.max_nics = 2});
  EXPECT_THAT(ResultOf(pair.a.Write(on_one.memory.CreateView(), on_two.memory.Remote())).Describe(),
              testing::HasSubstr("is not registered on mlx5_1"));
  EXPECT_THAT(ResultOf(pair.a.Write(on_two.memory.CreateView(), on_one.memory.Remote())).Describe(),
              testing::HasSubstr("no key for one of the peer's NICs"));
  EXPECT_SUCCESS(ResultOf(pair.a.Write(on_two.memory.CreateView(), on_two.memory.Remote())));
}

TEST(SeveralNics, ConnectToASideWithFewer) {
  RdmaTransport two(0, OnTwoNics()), one(1, TransportConfig{.queue_pairs = 3});
  const Bound of_two = two.Bind(), of_one = one.Bind();
  ASSERT_SUCCESS(two.Connect(of_one.url));
  ASSERT_SUCCESS(one.Connect(of_two.url));
  Buffer at_two(3 << 20, 0, {.max_nics = 2}), at_one(3 << 20, 1);
  FillPattern(at_two.bytes, 32);
  EXPECT_SUCCESS(ResultOf(two.Write(at_two.memory.CreateView(), at_one.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(one.WaitForWrite()));
  EXPECT_EQ(at_one.bytes, at_two.bytes);
  at_two.bytes.assign(at_two.bytes.size(), 0);
  EXPECT_SUCCESS(ResultOf(one.Write(at_one.memory.CreateView(), at_two.memory.Remote())));
  EXPECT_EQ(at_one.bytes, at_two.bytes);
}

TEST(LongestMessage, DoesNotLimitATransfer) {
  Pair pair(TransportConfig{.piece_bytes = 64 << 20});
  pair.Connect();
  for (const size_t bytes : {(1u << 20) - 1, 1u << 20, (1u << 20) + 1, (5u << 20) + 4097}) {
    Buffer from(bytes), to(bytes), back(bytes);
    FillPattern(from.bytes, bytes);
    ASSERT_SUCCESS(ResultOf(pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
    ASSERT_SUCCESS(ResultOf(pair.b.WaitForWrite()));
    ASSERT_EQ(to.bytes, from.bytes) << bytes;
    ASSERT_SUCCESS(ResultOf(pair.a.Read(back.memory.CreateMutableView(), to.memory.Remote())));
    ASSERT_EQ(back.bytes, from.bytes) << bytes;
  }
}

}  // namespace
}  // namespace warpverbs::transport
