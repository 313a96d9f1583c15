#include <gtest/gtest.h>

#include "../common/open_files.hpp"
#include "pair.hpp"

namespace warpverbs::e2e {
namespace {

void ConnectWriteAndDestroy(uint64_t value) {
  Pair pair({.a = {.depth = 16}});
  pair.Connect();
  Queue<device::Exclusive> queue(pair.a.View());
  pair.Source(3) = value;
  ASSERT_EQ(pair.PutWord(queue, 3).status.code, device::Code::kOk);
  ASSERT_EQ(queue.Flush(Within()).code, device::Code::kOk);
  ASSERT_EQ(pair.Target(3), value);
}

TEST(Cycles, LeaveNoFileOpen) {
  ConnectWriteAndDestroy(1);  // opens the files that a process keeps forever
  const size_t before = OpenFiles();
  for (uint64_t value = 2; value <= 101; ++value) ConnectWriteAndDestroy(value);
  EXPECT_EQ(OpenFiles(), before);
}

TEST(Cycles, EndWithWritesInProgress) {
  for (int i = 0; i < 100; ++i) {
    Pair pair({.a = {.depth = 16}, .bytes = 1 << 20});
    pair.Connect();
    Queue<device::Exclusive> queue(pair.a.View());
    for (int j = 0; j < 8; ++j)
      ASSERT_TRUE(queue.Post(device::Write(pair.Remote(0), pair.Local(0, 1 << 20))).status.ok());
  }
}

}  // namespace
}  // namespace warpverbs::e2e
