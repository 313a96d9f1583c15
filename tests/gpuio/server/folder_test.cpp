#include "gpuio/server/folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string>

#include "gpuio/common/rig.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

namespace fs = std::filesystem;
using namespace protocol;

constexpr uint32_t kCreate = kOpenRead | kOpenWrite | kOpenCreate;

/// A folder "export" beside a file "secret" that no client may reach.
class Folders : public testing::Test {
 protected:
  Folders() {
    fs::create_directories(top_ / "export/inner");
    WriteFile(top_ / "secret", {1, 2, 3});
    WriteFile(top_ / "export/file", {1, 2, 3, 4});
    folder_.emplace(top_ / "export", false);
    read_only_.emplace(top_ / "export", true);
  }

  int OpenError(const std::string& path, uint32_t flags = kOpenRead) {
    return folder_->Open({path, flags, 0644}).error;
  }

  TemporaryFolder top_;
  std::optional<Folder> folder_, read_only_;
};

TEST_F(Folders, OpenWhatIsInside) {
  const FolderFile file = folder_->Open({"file", kOpenRead, 0});
  ASSERT_EQ(file.error, 0);
  EXPECT_EQ(file.attributes.bytes, 4u);
  EXPECT_TRUE(S_ISREG(file.attributes.mode));
  EXPECT_EQ(OpenError(""), 0) << "the root";
  EXPECT_EQ(OpenError("inner"), 0);
  EXPECT_EQ(OpenError("nothing"), ENOENT);
  EXPECT_EQ(OpenError("file/x"), ENOTDIR);
}

TEST_F(Folders, FollowSymlinksThatStayInside) {
  fs::create_symlink("../file", top_ / "export/inner/link");
  EXPECT_EQ(OpenError("inner/link"), 0);
  EXPECT_EQ(OpenError("inner/link", kOpenRead | kOpenNoFollow), ELOOP);
}

TEST_F(Folders, RefuseSymlinksThatLeave) {
  fs::create_symlink("../secret", top_ / "export/up");
  fs::create_symlink(top_ / "secret", top_ / "export/absolute");
  fs::create_symlink(top_.path(), top_ / "export/folder");
  fs::create_symlink("/proc/self/fd/0", top_ / "export/magic");
  for (const char* const path : {"up", "absolute", "folder/secret", "magic"}) {
    EXPECT_EQ(OpenError(path), EACCES) << path;
    EXPECT_EQ(OpenError(path, kCreate), EACCES) << path;
  }
  EXPECT_EQ(folder_->Remove({"folder/secret", false}).error, EACCES);
  EXPECT_EQ(folder_->MakeDirectory({"folder/new", 0755}).error, EACCES);
  EXPECT_EQ(folder_->Rename({"folder/secret", "mine", 0}).error, EACCES);
  EXPECT_EQ(folder_->Rename({"file", "folder/theirs", 0}).error, EACCES);
  EXPECT_EQ(folder_->HardLink({"folder/secret", "mine"}).error, EACCES);
  EXPECT_EQ(folder_->List({"folder", 0}).error, EACCES);
  EXPECT_EQ(folder_->GetAttributes("folder/secret").error, EACCES);
  EXPECT_EQ(folder_->ChangeAttributes("folder/secret", {.mode = 0}).error, EACCES);
  EXPECT_EQ(folder_->ReadLink({"folder/secret"}).error, EACCES);
  EXPECT_EQ(ReadFile(top_ / "secret").size(), 3u);
}

TEST_F(Folders, ChangeSymlinksThemselvesNotTheirTargets) {
  fs::create_symlink("../secret", top_ / "export/up");
  EXPECT_EQ(folder_->ChangeAttributes("up", {.mode = 0}).error, EOPNOTSUPP);
  EXPECT_EQ(folder_->ChangeAttributes("up", {.bytes = 0}).error, ELOOP);
  EXPECT_EQ(folder_->ChangeAttributes("up", {.modified = timespec{5, 0}}).error, 0);
  struct stat status;
  ASSERT_EQ(lstat((top_ / "export/up").c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 5);
  ASSERT_EQ(stat((top_ / "secret").c_str(), &status), 0);
  EXPECT_NE(status.st_mtim.tv_sec, 5);
  EXPECT_EQ(std::get<ReadLinkReply>(folder_->ReadLink({"up"}).reply).target, "../secret");
  EXPECT_EQ(folder_->ReadLink({"file"}).error, EINVAL);
}

TEST_F(Folders, OpenNeitherPipesNorSocketsNorDevices) {
  ASSERT_EQ(mkfifo((top_ / "export/pipe").c_str(), 0600), 0);
  EXPECT_EQ(OpenError("pipe"), EACCES);
  EXPECT_EQ(OpenError("pipe", kOpenWrite), EACCES);
  EXPECT_EQ(OpenError("pipe", kCreate), EACCES);
  if (mknod((top_ / "export/null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    EXPECT_EQ(OpenError("null"), EACCES);
  }
}

TEST_F(Folders, CreateFiles) {
  const FolderFile file = folder_->Open({"inner/new", kCreate, 0600});
  ASSERT_EQ(file.error, 0);
  EXPECT_EQ(file.attributes.mode & 0777, 0600u);
  EXPECT_EQ(OpenError("inner/new", kCreate), 0) << "exists";
  EXPECT_EQ(OpenError("inner/new", kCreate | kOpenExclusive), EEXIST);
  EXPECT_EQ(OpenError("other", kCreate | kOpenExclusive), 0);
  EXPECT_EQ(OpenError("none/new", kCreate), ENOENT);
  EXPECT_EQ(OpenError("inner", kCreate), EISDIR);
  EXPECT_EQ(OpenError("inner", kOpenWrite), EISDIR);
  EXPECT_EQ(OpenError("file", kOpenRead | kOpenDirectory), ENOTDIR);
}

TEST_F(Folders, TruncateOnRequest) {
  EXPECT_EQ(folder_->Open({"file", kOpenWrite | kOpenTruncate, 0}).attributes.bytes, 0u);
  EXPECT_EQ(fs::file_size(top_ / "export/file"), 0u);
}

TEST_F(Folders, ChangeNothingIfReadOnly) {
  const auto open = [&](const char* path, uint32_t flags) {
    return read_only_->Open({path, flags, 0644}).error;
  };
  EXPECT_EQ(open("file", kOpenRead), 0);
  EXPECT_EQ(open("file", kOpenWrite), EROFS);
  EXPECT_EQ(open("file", kOpenRead | kOpenWrite | kOpenTruncate), EROFS);
  EXPECT_EQ(open("file", kOpenRead | kOpenCreate), 0);
  EXPECT_EQ(open("new", kOpenRead | kOpenCreate), EROFS);
  EXPECT_EQ(open("new", kCreate), EROFS);
  EXPECT_EQ(read_only_->MakeDirectory({"new", 0755}).error, EROFS);
  EXPECT_EQ(read_only_->Remove({"file", false}).error, EROFS);
  EXPECT_EQ(read_only_->Remove({"inner", true}).error, EROFS);
  EXPECT_EQ(read_only_->Rename({"file", "other", 0}).error, EROFS);
  EXPECT_EQ(read_only_->HardLink({"file", "other"}).error, EROFS);
  EXPECT_EQ(read_only_->ChangeAttributes("file", {.mode = 0}).error, EROFS);
  const FolderFile file = read_only_->Open({"file", kOpenRead, 0});
  EXPECT_EQ(read_only_->ChangeAttributes(file.fd.get(), {.bytes = 0}).error, EROFS);
  EXPECT_EQ(fs::file_size(top_ / "export/file"), 4u);
}

TEST_F(Folders, ChangeAttributes) {
  EXPECT_EQ(folder_->ChangeAttributes("file", {.bytes = 10, .mode = 0600, .modified = timespec{7, 8}}).error,
            0);
  const auto answer = folder_->GetAttributes("file");
  ASSERT_EQ(answer.error, 0);
  const Attributes& attributes = std::get<AttributesReply>(answer.reply).attributes;
  EXPECT_EQ(attributes.bytes, 10u);
  EXPECT_EQ(attributes.mode & 0777, 0600u);
  EXPECT_EQ(attributes.modified.tv_sec, 7);
  EXPECT_EQ(attributes.modified.tv_nsec, 8);
  EXPECT_EQ(folder_->ChangeAttributes("inner", {.bytes = 1}).error, EISDIR);
}

TEST_F(Folders, ListAllOfALargeFolder) {
  std::set<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    expected.insert("a file with a name of some length " + std::to_string(i));
    WriteFile(top_ / ("export/inner/" + *expected.rbegin()), {});
    WriteFile(top_ / ("export/inner/a file with a name of some length " + std::to_string(i)), {});
  }
  std::set<std::string> listed;
  ListRequest request{"inner", 0};
  for (bool end = false; !end;) {
    const auto answer = folder_->List(request);
    ASSERT_EQ(answer.error, 0);
    const auto& page = std::get<ListReply>(answer.reply);
    EXPECT_LE(EncodeReply(1, 11, 0, page).size(), kMaxFrameBytes);
    for (const DirectoryEntry& entry : page.entries)
      EXPECT_TRUE(listed.insert(entry.name).second) << entry.name;
    request.start = page.next;
    end = page.end;
  }
  EXPECT_EQ(listed, expected);
}

TEST_F(Folders, ListPagesThatFitAFrameWhateverTheNames) {
  for (int i = 0; i < 400; ++i)
    WriteFile(top_ / ("export/inner/" + std::string(250, 'x') + std::to_string(i)), {});
  const auto answer = folder_->List({"inner", 0});
  ASSERT_EQ(answer.error, 0);
  EXPECT_LE(EncodeReply(1, 11, 0, answer.reply).size(), kMaxFrameBytes);
  EXPECT_EQ(folder_->List({"file", 0}).error, ENOTDIR);
}

TEST_F(Folders, RenameAndLink) {
  EXPECT_EQ(folder_->HardLink({"file", "inner/second"}).error, 0);
  EXPECT_EQ(folder_->Rename({"file", "inner/second", RENAME_NOREPLACE}).error, EEXIST);
  EXPECT_EQ(folder_->Rename({"file", "third", 0}).error, 0);
  EXPECT_FALSE(fs::exists(top_ / "export/file"));
  EXPECT_TRUE(fs::exists(top_ / "export/third"));
  EXPECT_EQ(folder_->Remove({"inner", false}).error, EISDIR);
  EXPECT_EQ(folder_->Remove({"inner", true}).error, ENOTEMPTY);
  EXPECT_EQ(folder_->Remove({"third", true}).error, ENOTDIR);
  EXPECT_EQ(folder_->Remove({"third", false}).error, 0);
}

TEST_F(Folders, SayWhyTheyCannotBeExported) {
  try {
    Folder(top_ / "nothing", false);
    FAIL();
  } catch (const host::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("Cannot export"));
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file or directory"));
  }
  EXPECT_THROW(Folder(top_ / "secret", false), host::Error) << "a file";
}

TEST_F(Folders, SayWhichIoTheyHave) {
  EXPECT_THAT(folder_->DescribeDirectIo(), testing::AnyOf(testing::HasSubstr("direct I/O in multiples of"),
                                                          testing::HasSubstr("buffered I/O, because")));
  EXPECT_TRUE(fs::exists(top_ / "export/file")) << "nothing is left of the probe";
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
