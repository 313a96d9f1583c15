#include "snippets.h"

#include <gtest/gtest.h>

#include "gpuio/mount_fixture.hpp"

extern "C" const void* hf3fs_every_function(int index);

namespace warpverbs::inline v0_2::gpuio {
namespace {

TEST(Snippets, ProgramInCLinksEveryFunction) {
  int count = 0;
  while (hf3fs_every_function(count) != nullptr) ++count;
  EXPECT_GE(count, 36);
}

TEST(Snippets, WritesAndReadsAFile) {
  ServedMount mount;
  EXPECT_EQ(snippet_write_and_read(mount.path(), mount.File("file").c_str()), 0);
  EXPECT_EQ(mount.ReadFile("file"), std::string(1 << 16, 'x'));
  EXPECT_TRUE(mount.Links().empty());
  const DaemonStatistics statistics = mount.Statistics();
  EXPECT_EQ(statistics.reads, 1u);
  EXPECT_EQ(statistics.writes, 1u);
  EXPECT_EQ(statistics.failures, 0u);
  EXPECT_EQ(statistics.bytes_read, uint64_t{1} << 16);
}

TEST(Snippets, ReadsManyBlocks) {
  ServedMount mount;
  std::string text;
  for (int i = 0; i < 10; ++i) text += std::string(1000, static_cast<char>('a' + i));
  mount.WriteFile("blocks", text);
  EXPECT_EQ(snippet_many_reads(mount.path(), mount.File("blocks").c_str(), 1000, 10), 0);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
