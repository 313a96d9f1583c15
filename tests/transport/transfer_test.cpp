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

TEST_F(Transfer, WritesAListAndNotifiesOnce) {
  constexpr size_t kEntries = 300, kMost = 40;
  Buffer from(kEntries * kMost), other(4096), to(kEntries * kMost);
  FillPattern(from.bytes, 4);
  FillPattern(other.bytes, 5);
  std::vector<uint8_t> expected(to.bytes.size());
  std::vector<ListWrite> list;
  const auto add = [&](const Buffer& source, size_t offset, size_t target, size_t size) {
    RdmaRemoteBuffer remote = to.memory.Remote();
    remote.ptr = to.bytes.data() + target;
    remote.len -= target;
    list.push_back({source.memory.CreateView(offset, size), remote});
    std::copy_n(source.bytes.begin() + static_cast<std::ptrdiff_t>(offset), size,
                expected.begin() + static_cast<std::ptrdiff_t>(target));
  };
  for (size_t i = 0; i < kEntries; ++i) add(i % 5 == 0 ? other : from, i, i * kMost, i % kMost);
  add(from, 100, 0, 20);  // touches the next one
  add(from, 120, 20, 20);
  auto arrival = pair.b.WaitForWrite();
  auto written = pair.a.Write(list, {.notify = true});
  EXPECT_SUCCESS(ResultOf(std::move(arrival)));
  EXPECT_EQ(to.bytes, expected);
  EXPECT_SUCCESS(ResultOf(std::move(written)));
  EXPECT_FALSE(TakeNotification(pair.b)) << "there was only one";
}

TEST_F(Transfer, NotifiesByAListWithoutBytes) {
  Buffer from(16), to(16);
  for (const auto& list : {std::vector<ListWrite>{},
                           std::vector<ListWrite>{{from.memory.CreateView(3, 0), to.memory.Remote()}}}) {
    auto arrival = pair.b.WaitForWrite();
    EXPECT_SUCCESS(ResultOf(pair.a.Write(list, {.notify = true})));
    EXPECT_SUCCESS(ResultOf(std::move(arrival)));
  }
}

TEST_F(Transfer, NamesTheInvalidEntryOfAList) {
  Buffer from(16), to(8);
  const std::vector<ListWrite> list = {{from.memory.CreateView(0, 8), to.memory.Remote()},
                                       {from.memory.CreateView(), to.memory.Remote()}};
  const Status status = ResultOf(pair.a.Write(list));
  EXPECT_EQ(status, Code::kInvalid);
  EXPECT_EQ(status.Describe(),
            "invalid call: entry 1 of the list: 16 bytes are more than the peer's buffer has, 8");
  EXPECT_EQ(to.bytes, std::vector<uint8_t>(8)) << "nothing was sent";
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
