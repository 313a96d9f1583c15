#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pair.hpp"
#include "warpverbs/host/device.hpp"

/// The largest number of NICs for one device.
namespace warpverbs::transport {
namespace {

constexpr uint32_t kMaxNics = AccessKey::kMaxNics;

TEST(MostNics, AreSortedByNumber) {
  EXPECT_THAT(host::DeviceNames(), testing::ElementsAre("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4",
                                                        "mlx5_5", "mlx5_6", "mlx5_7"))
      << "the order must be the same in every process";
}

/// Has more pieces than queue pairs, so each queue pair carries some.
TEST(MostNics, ShareOneTransfer) {
  constexpr size_t kBytes = (20 << 20) + 1;
  Pair pair(TransportConfig{.max_nics = kMaxNics});
  pair.Connect();
  for (uint32_t i = 0; i < kMaxNics; ++i) {
    EXPECT_THAT(pair.a.Describe(), testing::HasSubstr("NIC: mlx5_" + std::to_string(i) + "\n"));
  }
  const RdmaMemoryConfig on_all{.max_nics = kMaxNics};
  Buffer from(kBytes, 0, on_all), to(kBytes, 0, on_all), back(kBytes, 0, on_all);
  EXPECT_EQ(to.memory.RemoteKey().nics, kMaxNics);
  EXPECT_EQ(AccessKey::FromText(to.memory.RemoteKey().ToText()), to.memory.RemoteKey());
  FillPattern(from.bytes, 33);
  auto arrival = pair.b.WaitForWrite();
  auto write = pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true});
  EXPECT_SUCCESS(ResultOf(std::move(arrival)));
  EXPECT_EQ(to.bytes, from.bytes);
  EXPECT_SUCCESS(ResultOf(std::move(write)));
  EXPECT_SUCCESS(ResultOf(pair.a.Read(back.memory.CreateMutableView(), to.memory.Remote())));
  EXPECT_EQ(back.bytes, from.bytes);
}

TEST(MostNics, RequireMemoryRegisteredOnEveryNic) {
  Pair pair(TransportConfig{.max_nics = kMaxNics});
  pair.Connect();
  const Buffer on_all(64, 0, {.max_nics = kMaxNics}), on_all_but_one(64, 0, {.max_nics = kMaxNics - 1});
  EXPECT_THAT(ResultOf(pair.a.Write(on_all_but_one.memory.CreateView(), on_all.memory.Remote())).Describe(),
              testing::HasSubstr("is not registered on mlx5_"));
  EXPECT_SUCCESS(ResultOf(pair.a.Write(on_all.memory.CreateView(), on_all.memory.Remote())));
}

}  // namespace
}  // namespace warpverbs::transport
