#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

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

TEST(Lifecycle, UarPagesEndAtTheLimitOnFileSizesAndAreReused) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{64 * 1024, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const verbs::Context context = verbs::Open();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  const auto alloc = [&] { return Uar(mlx5dv_devx_alloc_uar(context.get(), MLX5DV_UAR_ALLOC_TYPE_BF)); };
  std::vector<Uar> pages;
  while (Uar page = alloc()) {
    *static_cast<volatile uint64_t*>(page->base_addr) = 0;  // the page exists
    pages.push_back(std::move(page));
    ASSERT_LT(pages.size(), 100u);
  }
  EXPECT_EQ(errno, ENOMEM);
  ASSERT_GE(pages.size(), 2u);
  pages.pop_back();
  EXPECT_NE(alloc(), nullptr) << "the freed page is free again";
  pages.clear();
  MakeByDevx(context.get());
}

}  // namespace
}  // namespace kernel_abi
