#include "gpuio/mount/mount.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "gpuio/common/rig.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

namespace fs = std::filesystem;

/// A daemon's control folder, without a daemon.
class FakeLinks : public ControlLinks {
 public:
  std::string Socket() const override { return "/run/gpuiod.socket"; }
  std::vector<std::string> List() const override {
    std::vector<std::string> names;
    for (const auto& [name, target] : links_) names.push_back(name);
    return names;
  }
  std::optional<std::string> Target(const std::string& name) const override {
    const auto found = links_.find(name);
    return found != links_.end() ? std::optional(found->second) : std::nullopt;
  }
  int Add(const std::string& name, const std::string& target, const ControlCaller& caller) override {
    if (name.size() < 4) return EINVAL;
    last_ = caller;
    return links_.emplace(name, target).second ? 0 : EEXIST;
  }
  int Remove(const std::string& name, const ControlCaller&) override {
    return links_.erase(name) != 0 ? 0 : ENOENT;
  }

  ControlCaller last_{};

 private:
  std::map<std::string, std::string> links_;
};

/// The folder of a server, mounted. Tests use the paths of the mount as any program does.
class Mounted : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::make_unique<Looped<FileServer>>(
        FileServerConfig{.folder = folder_.path(), .address = "127.0.0.1"});
    const FileClientConfig config{.servers = {{"127.0.0.1", (*server_)->port()}}};
    std::string reason;
    OnLoop(loop_, [&] {
      client_.emplace(config, loop_);
      MountConfig mount{.folder = mount_.path(), .buffers = 4, .on_unmounted = [this] { unmounted_ = true; }};
      try {
        mounted_.emplace(mount, loop_, *client_, &links_);
      } catch (const host::Error& error) {
        reason = error.what();
      }
    });
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  ~Mounted() override {
    OnLoop(loop_, [&] {
      mounted_.reset();
      client_.reset();
    });
    umount2(mount_.path().c_str(), MNT_DETACH);
  }

  TemporaryFolder folder_, mount_;
  FakeLinks links_;
  transport::EventLoop loop_;
  std::unique_ptr<Looped<FileServer>> server_;
  std::optional<FileClient> client_;
  std::optional<Mount> mounted_;
  std::atomic<bool> unmounted_ = false;
};

/// Returns what a call leaves in errno.
int ErrorOf(int result) { return result < 0 ? errno : 0; }

TEST_F(Mounted, FilesAreReadAndWritten) {
  const auto pattern = Pattern(5'000'001, 1);
  WriteFile(folder_ / "from server", pattern);
  EXPECT_TRUE(ReadFile(mount_ / "from server") == pattern);
  WriteFile(mount_ / "to server", pattern);
  EXPECT_TRUE(ReadFile(folder_ / "to server") == pattern);
  EXPECT_EQ(fs::file_size(mount_ / "to server"), pattern.size());
}

TEST_F(Mounted, FilesShowAtOnceWhatOthersWrite) {
  WriteFile(folder_ / "file", {1, 2, 3});
  const int fd = open((mount_ / "file").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  uint8_t bytes[10];
  ASSERT_EQ(pread(fd, bytes, 10, 0), 3);
  WriteFile(folder_ / "file", {4, 5, 6, 7});
  EXPECT_EQ(pread(fd, bytes, 10, 0), 4);
  EXPECT_EQ(bytes[0], 4);
  EXPECT_EQ(fs::file_size(mount_ / "file"), 4u);
  close(fd);
}

TEST_F(Mounted, HolesReadAsZeros) {
  const auto pattern = Pattern(4096, 1);
  const int fd = open((folder_ / "file").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(pwrite(fd, pattern.data(), pattern.size(), 3 << 20), 4096);
  close(fd);
  auto expected = std::vector<uint8_t>(3 << 20, 0);
  expected.insert(expected.end(), pattern.begin(), pattern.end());
  EXPECT_TRUE(ReadFile(mount_ / "file") == expected);
}

TEST_F(Mounted, FilesAppendAndTruncate) {
  WriteFile(mount_ / "file", {1, 2, 3});
  const int fd = open((mount_ / "file").c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write(fd, "ab", 2), 2);
  EXPECT_EQ(write(fd, "cd", 2), 2);
  EXPECT_EQ(fsync(fd), 0);
  close(fd);
  EXPECT_EQ(ReadFile(folder_ / "file"), (std::vector<uint8_t>{1, 2, 3, 'a', 'b', 'c', 'd'}));
  EXPECT_EQ(truncate((mount_ / "file").c_str(), 2), 0);
  EXPECT_EQ(ReadFile(mount_ / "file"), (std::vector<uint8_t>{1, 2}));
  WriteFile(mount_ / "file", {});
  EXPECT_EQ(fs::file_size(folder_ / "file"), 0u);
}

TEST_F(Mounted, FilesAppendBehindWhatOthersHaveAppended) {
  WriteFile(folder_ / "file", {1});
  const int fd = open((mount_ / "file").c_str(), O_WRONLY | O_APPEND),
            other = open((folder_ / "file").c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write(fd, "ab", 2), 2);
  EXPECT_EQ(write(other, "cde", 3), 3);
  EXPECT_EQ(write(fd, "fg", 2), 2);
  close(fd), close(other);
  EXPECT_EQ(ReadFile(folder_ / "file"), (std::vector<uint8_t>{1, 'a', 'b', 'c', 'd', 'e', 'f', 'g'}));
}

TEST_F(Mounted, FilesThatAreOpenedForReadingTruncate) {
  WriteFile(folder_ / "file", {1, 2, 3});
  const int fd = open((mount_ / "file").c_str(), O_RDONLY | O_TRUNC);
  ASSERT_GE(fd, 0) << errno;
  close(fd);
  EXPECT_EQ(fs::file_size(folder_ / "file"), 0u);
}

TEST_F(Mounted, OpenFilesKeepTheirAttributesWhenOthersReplaceThem) {
  WriteFile(folder_ / "file", {1, 2, 3});
  const int fd = open((mount_ / "file").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  struct stat before, after;
  ASSERT_EQ(fstat(fd, &before), 0);
  WriteFile(folder_ / "new", {1, 2, 3, 4, 5});
  fs::rename(folder_ / "new", folder_ / "file");
  ASSERT_EQ(fstat(fd, &after), 0);
  EXPECT_EQ(after.st_size, 3);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_TRUE(Eventually([&] { return fs::file_size(mount_ / "file") == 5; })) << "the name is the new one's";
  ASSERT_EQ(fstat(fd, &after), 0);
  EXPECT_EQ(after.st_size, 3);
  close(fd);
}

TEST_F(Mounted, FoldersAreListedMadeAndRemoved) {
  fs::create_directories(mount_ / "a/b/c");
  for (int i = 0; i < 300; ++i) WriteFile(folder_ / ("a/file" + std::to_string(i)), {});
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(mount_ / "a")) names.insert(entry.path().filename());
  EXPECT_EQ(names.size(), 301u);
  EXPECT_TRUE(names.contains("file299"));
  EXPECT_EQ(ErrorOf(rmdir((mount_ / "a").c_str())), ENOTEMPTY);
  fs::remove_all(mount_ / "a");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

TEST_F(Mounted, NamesMoveAndLink) {
  WriteFile(mount_ / "file", {1});
  fs::create_directory(mount_ / "folder");
  fs::rename(mount_ / "file", mount_ / "folder/moved");
  EXPECT_EQ(ReadFile(mount_ / "folder/moved"), std::vector<uint8_t>{1});
  fs::rename(mount_ / "folder", mount_ / "other");
  EXPECT_EQ(ReadFile(mount_ / "other/moved"), std::vector<uint8_t>{1});
  fs::create_hard_link(mount_ / "other/moved", mount_ / "linked");
  EXPECT_EQ(fs::hard_link_count(mount_ / "linked"), 2u);
  fs::create_symlink("linked", folder_ / "symlink");
  EXPECT_EQ(fs::read_symlink(mount_ / "symlink"), "linked");
  EXPECT_EQ(ReadFile(mount_ / "symlink"), std::vector<uint8_t>{1});
}

TEST_F(Mounted, FilesWhoseNamesWereRemovedStayOpen) {
  WriteFile(mount_ / "file", Pattern(10'000, 1));
  const int fd = open((mount_ / "file").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  fs::remove(mount_ / "file");
  std::vector<uint8_t> bytes(10'000);
  EXPECT_EQ(pread(fd, bytes.data(), bytes.size(), 0), 10'000);
  EXPECT_TRUE(bytes == Pattern(10'000, 1));
  struct stat status;
  EXPECT_EQ(fstat(fd, &status), 0);
  EXPECT_EQ(status.st_size, 10'000);
  EXPECT_EQ(ftruncate(fd, 5), 0);
  close(fd);
}

TEST_F(Mounted, AttributesAreTheServers) {
  WriteFile(folder_ / "file", {1, 2, 3});
  struct stat there, here;
  ASSERT_EQ(stat((folder_ / "file").c_str(), &there), 0);
  ASSERT_EQ(stat((mount_ / "file").c_str(), &here), 0);
  EXPECT_EQ(here.st_ino, there.st_ino);
  EXPECT_EQ(here.st_mtim.tv_nsec, there.st_mtim.tv_nsec);
  EXPECT_EQ(chmod((mount_ / "file").c_str(), 0400), 0);
  const timespec times[2] = {{.tv_sec = 10, .tv_nsec = 0}, {.tv_sec = 20, .tv_nsec = 5}};
  EXPECT_EQ(utimensat(AT_FDCWD, (mount_ / "file").c_str(), times, 0), 0);
  ASSERT_EQ(stat((folder_ / "file").c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0400u);
  EXPECT_EQ(there.st_mtim.tv_sec, 20);
  struct statvfs space;
  ASSERT_EQ(statvfs(mount_.path().c_str(), &space), 0);
  EXPECT_GT(space.f_blocks, 0u);
}

TEST_F(Mounted, ErrorsAreThoseOfTheServer) {
  EXPECT_EQ(ErrorOf(open((mount_ / "nothing").c_str(), O_RDONLY)), ENOENT);
  WriteFile(mount_ / "file", {1});
  EXPECT_EQ(ErrorOf(open((mount_ / "file").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)), EEXIST);
  EXPECT_EQ(ErrorOf(mkdir((mount_ / "file").c_str(), 0700)), EEXIST);
  EXPECT_EQ(ErrorOf(mkfifo((mount_ / "pipe").c_str(), 0600)), EPERM);
  EXPECT_EQ(ErrorOf(symlink("a", (mount_ / "link").c_str())), EPERM);
  fs::create_symlink("/etc/passwd", folder_ / "outside");
  EXPECT_EQ(fs::read_symlink(mount_ / "outside"), "/etc/passwd") << "it is this machine's, as on any network";
}

TEST_F(Mounted, SharedMappingsAreRefused) {
  WriteFile(mount_ / "file", Pattern(4096, 1));
  const int fd = open((mount_ / "file").c_str(), O_RDWR);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  close(fd);
}

TEST_F(Mounted, ManyThreadsWorkAtOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&, i] {
      const auto pattern = Pattern(1'500'000, static_cast<uint64_t>(i));
      const auto path = mount_ / std::to_string(i);
      WriteFile(path, pattern);
      if (ReadFile(path) == pattern) ++right;
    });
  }
  threads.clear();
  EXPECT_EQ(right, 12);
}

TEST_F(Mounted, ControlFolderHasTheDaemonsLinks) {
  EXPECT_EQ(fs::read_symlink(mount_ / "3fs-virt/daemon"), "/run/gpuiod.socket");
  const std::string name = "3fs-virt/iovs/00112233445566778899aabbccddeeff.gdr.d0";
  EXPECT_EQ(ErrorOf(symlink("gdr://v2/device/0", (mount_ / name).c_str())), 0);
  const ControlCaller caller = OnLoop(loop_, [&] { return links_.last_; });
  EXPECT_EQ(caller.process, getpid());
  EXPECT_EQ(caller.user, getuid());
  EXPECT_EQ(fs::read_symlink(mount_ / name), "gdr://v2/device/0");
  EXPECT_EQ(ErrorOf(symlink("again", (mount_ / name).c_str())), EEXIST);
  EXPECT_EQ(ErrorOf(symlink("bad", (mount_ / "3fs-virt/iovs/x").c_str())), EINVAL) << "the daemon refuses it";
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(mount_ / "3fs-virt/iovs"))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("00112233445566778899aabbccddeeff.gdr.d0"));
  EXPECT_EQ(ErrorOf(unlink((mount_ / name).c_str())), 0);
  EXPECT_FALSE(fs::is_symlink(mount_ / name));
  EXPECT_EQ(ErrorOf(unlink((mount_ / name).c_str())), ENOENT);
  EXPECT_FALSE(fs::exists(folder_ / "3fs-virt")) << "nothing of it is on the server";
}

TEST_F(Mounted, ControlFolderHasNothingElse) {
  EXPECT_EQ(ErrorOf(mkdir((mount_ / "3fs-virt/x").c_str(), 0700)), EPERM);
  EXPECT_EQ(ErrorOf(open((mount_ / "3fs-virt/iovs/file").c_str(), O_RDWR | O_CREAT, 0600)), EPERM);
  EXPECT_EQ(ErrorOf(rmdir((mount_ / "3fs-virt").c_str())), EPERM);
  WriteFile(mount_ / "file", {});
  EXPECT_EQ(ErrorOf(rename((mount_ / "file").c_str(), (mount_ / "3fs-virt/file").c_str())), EPERM);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(mount_.path())) names.insert(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("3fs-virt", "file"));
}

TEST_F(Mounted, UnmountingByOthersIsNoticed) {
  ASSERT_EQ(umount2(mount_.path().c_str(), 0), 0);
  EXPECT_TRUE(Eventually([&] { return unmounted_.load(); }));
}

TEST(MountErrors, NameFolderAndRemedy) {
  transport::EventLoop loop;
  OnLoop(loop, [&] {
    FileClient client({.servers = {{"127.0.0.1", 1}}}, loop);
    try {
      Mount({.folder = "/no/such/folder"}, loop, client, nullptr);
      ADD_FAILURE();
    } catch (const host::Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("Cannot mount on /no/such/folder"));
    }
  });
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
