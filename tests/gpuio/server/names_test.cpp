#include <linux/fs.h>

#include "gpuio/server/served.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

using Names = Served;

TEST_F(Names, AreListed) {
  fs::create_directory(folder_ / "folder");
  WriteFile(folder_ / "file", {});
  EXPECT_THAT(client().List("").second, ElementsAre("file", "folder"));
  EXPECT_THAT(client().List("/folder/").second, ElementsAre());
  EXPECT_EQ(client().List("nothing").first, ENOENT);
  EXPECT_EQ(client().List("file").first, ENOTDIR);
}

TEST_F(Names, AreListedWithTypesAndInodes) {
  fs::create_directory(folder_ / "folder");
  const auto [error, entries] =
      Await<int, std::vector<DirectoryEntry>>([&](auto done) { client()->List("", std::move(done)); });
  ASSERT_EQ(error, 0);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].type, static_cast<uint32_t>(S_IFDIR));
  EXPECT_EQ(entries[0].inode, std::get<1>(client().GetAttributes("folder")).inode);
}

TEST_F(Names, MayBeTenThousand) {
  constexpr int kFiles = 10'000;
  for (int i = 0; i < kFiles; ++i) WriteFile(folder_ / ("file" + std::to_string(i)), Pattern(i % 50, i));
  const auto [error, names] = client().List("");
  ASSERT_EQ(error, 0);
  ASSERT_EQ(names.size(), static_cast<size_t>(kFiles));
  Memory memory(64);
  for (int i = 0; i < kFiles; i += 100) {
    const uint64_t file = client().MustOpen("file" + std::to_string(i), O_RDONLY);
    ASSERT_EQ(client().Read(file, 0, memory.Remote()).result, i % 50);
    const auto pattern = Pattern(i % 50, i);
    ASSERT_TRUE(std::equal(pattern.begin(), pattern.end(), memory.data()));
    client().Close(file);
  }
}

TEST_F(Names, AreMadeRenamedAndRemoved) {
  EXPECT_EQ(client().MakeDirectory("a", 0700), 0);
  EXPECT_EQ(client().MakeDirectory("a"), EEXIST);
  EXPECT_EQ(client().MakeDirectory(""), EEXIST);
  client().MustOpen("a/file", O_RDWR | O_CREAT);
  EXPECT_EQ(client().HardLink("a/file", "linked"), 0);
  EXPECT_EQ(std::get<1>(client().GetAttributes("linked")).links, 2u);
  EXPECT_EQ(client().Rename("a/file", "linked", RENAME_NOREPLACE), EEXIST);
  EXPECT_EQ(client().Rename("a", "b"), 0);
  EXPECT_EQ(client().RemoveDirectory("b"), ENOTEMPTY);
  EXPECT_EQ(client().Unlink("b/file"), 0);
  EXPECT_EQ(client().Unlink("b"), EISDIR);
  EXPECT_EQ(client().RemoveDirectory("b"), 0);
  EXPECT_EQ(client().RemoveDirectory(""), EBUSY);
  EXPECT_THAT(client().List("").second, ElementsAre("linked"));
}

TEST_F(Names, ThatLeaveTheFolderAreRefused) {
  EXPECT_EQ(client().Open("../etc/passwd", O_RDONLY).first, EINVAL);
  EXPECT_EQ(client().Open("a/../../b", O_RDONLY).first, EINVAL);
  fs::create_symlink("/etc/passwd", folder_ / "link");
  EXPECT_EQ(client().Open("link", O_RDONLY).first, EACCES);
  EXPECT_EQ(std::get<1>(client().ReadLink("link")), "/etc/passwd");
  EXPECT_EQ(std::get<0>(client().ReadLink("nothing")), ENOENT);
  EXPECT_EQ(client().Open(std::string(300, 'x'), O_RDONLY).first, ENAMETOOLONG);
}

TEST_F(Names, AreOpenedAsTheFlagsSay) {
  WriteFile(folder_ / "file", {1, 2, 3});
  EXPECT_EQ(client().Open("file", O_RDWR | O_CREAT | O_EXCL).first, EEXIST);
  EXPECT_EQ(client().Open("file", O_RDONLY | O_DIRECTORY).first, ENOTDIR);
  EXPECT_EQ(client().Open("file", O_RDONLY | O_APPEND).first, EINVAL);
  const auto [error, opened] = client().Open("file", O_WRONLY | O_TRUNC);
  EXPECT_EQ(error, 0);
  EXPECT_EQ(opened.attributes.bytes, 0u);
  EXPECT_EQ(client().Open("", O_RDONLY | O_DIRECTORY).first, 0);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
