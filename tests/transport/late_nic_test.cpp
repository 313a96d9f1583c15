#include <gtest/gtest.h>

#include "pair.hpp"
#include "url.hpp"

/// Two NICs, one of which delivers late and out of order. The rules of softhca name four queue pairs from
/// kFirst on. Only queue pairs of mlx5_1 have such numbers here.
namespace warpverbs::transport {
namespace {

constexpr uint32_t kFirst = 0x101, kLateQueuePairs = 4;

struct LateNic : testing::Test {
  void SetUp() override {
    ASSERT_SUCCESS(number_taker.Bind().status);
    const Bound a = pair.a.Bind(), b = pair.b.Bind();
    for (const std::string& url : {a.url, b.url}) {
      for (const Url::QueuePair& queue_pair : Url::FromText(url).queue_pairs) {
        (queue_pair.nic == 1 ? late : in_time) += 1;
        ASSERT_EQ(queue_pair.nic == 1, queue_pair.endpoint.qpn < kFirst + kLateQueuePairs)
            << queue_pair.endpoint.qpn;
      }
    }
    ASSERT_SUCCESS(pair.a.Connect(b.url));
    ASSERT_SUCCESS(pair.b.Connect(a.url));
  }

  RdmaTransport number_taker{
      0, TransportConfig{.queue_pairs = kLateQueuePairs}};  // takes these numbers on mlx5_0
  Pair pair{TransportConfig{.max_nics = 2, .piece_bytes = 4096}};
  int late = 0, in_time = 0;
};

/// Some writes have pieces on both NICs, some a single piece. Each has its own pattern and place.
TEST_F(LateNic, NotificationWaitsForTheBytesOfBothNics) {
  ASSERT_EQ(late, 4);
  ASSERT_EQ(in_time, 4);
  constexpr size_t kWrites = 120, kPlace = 40'000;
  Buffer from(kWrites * kPlace, 0, {.max_nics = 2}), to(kWrites * kPlace, 0, {.max_nics = 2});
  FillPattern(from.bytes, 41);
  const auto bytes_of = [](size_t write) { return 1 + write * 997 % kPlace; };
  std::vector<std::future<Status>> writes;
  for (size_t i = 0; i < kWrites; ++i) {
    const RdmaRemoteBuffer place{to.bytes.data() + i * kPlace, to.memory.RemoteKey(), kPlace};
    writes.push_back(pair.a.Write(from.memory.CreateView(i * kPlace, bytes_of(i)), place, {.notify = true}));
  }
  for (size_t i = 0; i < kWrites; ++i) {
    ASSERT_SUCCESS(ResultOf(pair.b.WaitForWrite()));
    const auto start = static_cast<ptrdiff_t>(i * kPlace);
    ASSERT_TRUE(std::equal(from.bytes.begin() + start,
                           from.bytes.begin() + start + static_cast<ptrdiff_t>(bytes_of(i)),
                           to.bytes.begin() + start))
        << "write " << i << " of " << bytes_of(i) << " bytes";
  }
  for (auto& write : writes) ASSERT_SUCCESS(ResultOf(std::move(write)));
  EXPECT_FALSE(TakeNotification(pair.b)) << "there was one for each write";
}

}  // namespace
}  // namespace warpverbs::transport
