#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "uverbs/devx_objects.hpp"
#include "verbs/peer.hpp"

namespace kernel_abi {
namespace {

constexpr int kCycles = 1000;

size_t OpenDescriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  size_t count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

size_t Mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

/// Creates every kind of object that verbs have, and connects two queue pairs.
void MakeByVerbs(ibv_context* context) {
  const verbs::Channel channel(ibv_create_comp_channel(context));
  verbs::Peer plain(context, {.channel = channel.get()});
  verbs::Peer shared(context, {.shared = true});
  verbs::Buffer buffer(plain.pd.get(), 4096);
  plain.Connect(shared);
  shared.Connect(plain);
  ASSERT_EQ(plain.State(), IBV_QPS_RTS);
}

void MakeByDevx(ibv_context* context) {
  const DevxQueues queues(context);
  ASSERT_NE(queues.qp(), nullptr);
}

TEST(Lifecycle, ObjectsLeaveNothingBehind) {
  const verbs::Context context = verbs::Open();
  MakeByVerbs(context.get());
  MakeByDevx(context.get());
  const size_t descriptors = OpenDescriptors();
  for (int i = 0; i < kCycles && !testing::Test::HasFailure(); ++i) {
    MakeByVerbs(context.get());
    MakeByDevx(context.get());
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

TEST(Lifecycle, DevicesLeaveNothingBehind) {
  MakeByVerbs(verbs::Open().get());
  const size_t descriptors = OpenDescriptors(), mappings = Mappings();
  for (int i = 0; i < kCycles && !testing::Test::HasFailure(); ++i) {
    const verbs::Context context = verbs::Open();
    MakeByVerbs(context.get());
    MakeByDevx(context.get());
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_LT(Mappings(), mappings + 16);  // the allocator may keep some
}

}  // namespace
}  // namespace kernel_abi
