#include <sys/stat.h>

#include "gpuio/server/served.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using FileAttributes = Served;

TEST_F(FileAttributes, AreThoseOfTheFile) {
  WriteFile(folder_ / "file", Pattern(12345, 1));
  struct stat status;
  ASSERT_EQ(stat((folder_ / "file").c_str(), &status), 0);
  const auto expect = [&](const std::tuple<int, Attributes>& answer) {
    const auto& [error, attributes] = answer;
    ASSERT_EQ(error, 0);
    EXPECT_EQ(attributes.inode, status.st_ino);
    EXPECT_EQ(attributes.bytes, 12345u);
    EXPECT_EQ(attributes.blocks, static_cast<uint64_t>(status.st_blocks));
    EXPECT_EQ(attributes.mode, status.st_mode);
    EXPECT_EQ(attributes.uid, status.st_uid);
    EXPECT_EQ(attributes.links, 1u);
    EXPECT_EQ(attributes.modified.tv_nsec, status.st_mtim.tv_nsec);
  };
  const auto [error, opened] = client().Open("file", O_RDONLY);
  expect({error, opened.attributes});
  expect(client().GetAttributes("file"));
  expect(client().GetAttributes(opened.file));
  EXPECT_EQ(std::get<0>(client().GetAttributes("nothing")), ENOENT);
  EXPECT_EQ(std::get<0>(client().GetAttributes(uint64_t{999})), EBADF);
}

TEST_F(FileAttributes, Change) {
  WriteFile(folder_ / "file", Pattern(10'000, 1));
  const uint64_t file = client().MustOpen("file", O_RDWR);
  EXPECT_EQ(client().ChangeAttributes(file, {.bytes = 5000}), 0);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "file"), 5000u);
  EXPECT_EQ(client().ChangeAttributes(std::string("file"),
                                      {.bytes = 1 << 20, .mode = 0600, .modified = timespec{1000, 1}}),
            0);
  const Attributes attributes = std::get<1>(client().GetAttributes(file));
  EXPECT_EQ(attributes.bytes, 1u << 20);
  EXPECT_EQ(attributes.mode & 0777, 0600u);
  EXPECT_EQ(attributes.modified.tv_sec, 1000);
  Memory memory(1 << 20);
  const ReadResult result = client().Read(file, 0, memory.Remote());
  EXPECT_EQ(result.result, 1 << 20);
  EXPECT_FALSE(result.holes.empty()) << "what was appended is a hole";
}

TEST_F(FileAttributes, OfTheFileSystemAreItsSpace) {
  const auto [error, space] = client().GetSpace();
  ASSERT_EQ(error, 0);
  EXPECT_GT(space.blocks, 0u);
  EXPECT_GE(space.blocks, space.free_blocks);
  EXPECT_EQ(space.longest_name, 255u);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
