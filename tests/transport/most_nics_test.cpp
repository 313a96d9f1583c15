#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pair.hpp"
#include "warpverbs/host/device.hpp"

/// As many NICs for one device as there may be.
namespace warpverbs::transport {
namespace {

constexpr uint32_t kMost = AccessKey::kMaxNics;

TEST(MostNics, AreCountedInTheOrderOfTheirNumbers) {
  EXPECT_THAT(host::DeviceNames(), testing::ElementsAre("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4",
                                                        "mlx5_5", "mlx5_6", "mlx5_7"))
      << "the same NIC has the same number in every process";
}

/// More pieces than queue pairs, so that each has to carry some.
TEST(MostNics, AllCarryOneTransferTogether) {
  constexpr size_t kBytes = (20 << 20) + 1;
  Pair pair(TransportOptions{.max_nics = kMost});
  pair.Connect();
  for (uint32_t i = 0; i < kMost; ++i) {
    EXPECT_THAT(pair.a.Describe(), testing::HasSubstr("NIC: mlx5_" + std::to_string(i) + "\n"));
  }
  const RdmaMemoryOptions on_all{.max_nics = kMost};
  Buffer from(kBytes, 0, on_all), to(kBytes, 0, on_all), back(kBytes, 0, on_all);
  EXPECT_EQ(to.memory.RemoteKey().nics, kMost);
  EXPECT_EQ(AccessKey::FromText(to.memory.RemoteKey().ToText()), to.memory.RemoteKey());
  FillPattern(from.bytes, 33);
  auto arrival = pair.b.WaitForWrite();
  auto write = pair.a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true});
  EXPECT_SUCCESS(Outcome(std::move(arrival)));
  EXPECT_EQ(to.bytes, from.bytes);
  EXPECT_SUCCESS(Outcome(std::move(write)));
  EXPECT_SUCCESS(Outcome(pair.a.Read(back.memory.CreateMutableView(), to.memory.Remote())));
  EXPECT_EQ(back.bytes, from.bytes);
}

TEST(MostNics, NeedMemoryThatIsRegisteredOnTheLastToo) {
  Pair pair(TransportOptions{.max_nics = kMost});
  pair.Connect();
  const Buffer on_all(64, 0, {.max_nics = kMost}), on_all_but_one(64, 0, {.max_nics = kMost - 1});
  EXPECT_THAT(Outcome(pair.a.Write(on_all_but_one.memory.CreateView(), on_all.memory.Remote())).What(),
              testing::HasSubstr("is not registered on mlx5_"));
  EXPECT_SUCCESS(Outcome(pair.a.Write(on_all.memory.CreateView(), on_all.memory.Remote())));
}

}  // namespace
}  // namespace warpverbs::transport
