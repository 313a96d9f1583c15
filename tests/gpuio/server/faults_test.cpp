// The test's program loses, reorders and corrupts packets: see CMakeLists.txt.
#include "gpuio/server/random_io.hpp"
#include "gpuio/server/served.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

class Faults : public Served, public testing::WithParamInterface<IoMode> {};

/// 16 threads, for 1 s or WARPVERBS_SOAK_SECONDS.
TEST_P(Faults, ChangeNoByteOfRandomIo) {
  server_config_.mode = GetParam();
  server_config_.memory = 4 << 20;
  size_t steps = 0;
  EXPECT_THAT(RandomIo(client(), 16, SoakTime(std::chrono::seconds(1)), false, &steps),
              testing::ElementsAre());
  EXPECT_GE(steps, 16u);
  RecordProperty("operations", static_cast<int>(steps));
  EXPECT_EQ(Statistics().clients, 1u) << "the connection lasts";
  EXPECT_EQ(Statistics().buffers_used, 0u);
}

INSTANTIATE_TEST_SUITE_P(Io, Faults, testing::Values(IoMode::kAuto, IoMode::kBuffered),
                         [](const auto& of) { return of.param == IoMode::kAuto ? "Auto" : "Buffered"; });

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
