#include <sys/stat.h>

#include <cstring>
#include <random>

#include "gpuio/common/small_file_system.hpp"
#include "gpuio/server/served.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

namespace fs = std::filesystem;

/// Direct and buffered I/O write the same.
class Writes : public Served, public testing::WithParamInterface<IoMode> {
 protected:
  Writes() { server_config_.mode = GetParam(); }
};

TEST_P(Writes, MakeAWholeFile) {
  Memory memory(5'000'001);
  memory.Set(Pattern(memory.size(), 1));
  const uint64_t file = client().MustOpen("file", O_WRONLY | O_CREAT | O_EXCL, 0640);
  EXPECT_EQ(client().Write(file, 0, memory.Remote()), 5'000'001);
  EXPECT_EQ(client().Sync(file), 0);
  EXPECT_EQ(ReadFile(folder_ / "file"), Pattern(memory.size(), 1));
  struct stat status;
  ASSERT_EQ(stat((folder_ / "file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_P(Writes, StartAndEndAnywhere) {
  std::vector<uint8_t> model(2'000'000, 0);
  WriteFile(folder_ / "file", model);
  const uint64_t file = client().MustOpen("file", O_RDWR);
  const auto source = Pattern(1'000'000, 2);
  Memory memory(source.size());
  memory.Set(source);
  std::mt19937_64 random(2);
  for (int i = 0; i < 40; ++i) {
    const size_t bytes = 1 + random() % (i % 2 == 0 ? 9000 : 900'000);
    const size_t from = random() % (source.size() - bytes), to = random() % (model.size() - bytes);
    ASSERT_EQ(client().Write(file, to, memory.Remote(from, bytes)), static_cast<int64_t>(bytes));
    std::copy_n(source.begin() + static_cast<ptrdiff_t>(from), bytes,
                model.begin() + static_cast<ptrdiff_t>(to));
  }
  EXPECT_EQ(ReadFile(folder_ / "file"), model);
  Memory back(model.size());
  EXPECT_EQ(client().Read(file, 0, back.Remote()).result, static_cast<int64_t>(model.size()));
  EXPECT_EQ(back.bytes(), model);
}

/// Direct parts and buffered ends of a write must not share a page of the cache: either could undo the other.
TEST_P(Writes, OfAPageOrTwoStayAsTheyWereWritten) {
  std::vector<uint8_t> model(64 << 10, 0);
  WriteFile(folder_ / "file", model);
  const uint64_t file = client().MustOpen("file", O_RDWR);
  Memory memory(model.size()), back(model.size());
  memory.Set(Pattern(model.size(), 3));
  std::mt19937_64 random(3);
  for (int i = 0; i < 50; ++i) {
    const size_t bytes = 1000 + random() % 8000, from = random() % (model.size() - bytes),
                 to = random() % (model.size() - bytes);
    ASSERT_EQ(client().Write(file, to, memory.Remote(from, bytes)), static_cast<int64_t>(bytes));
    std::copy_n(memory.data() + from, bytes, model.begin() + static_cast<ptrdiff_t>(to));
    ASSERT_EQ(client().Read(file, 0, back.Remote()).result, static_cast<int64_t>(model.size()));
    ASSERT_TRUE(back.bytes() == model) << "after " << i << " writes, of " << bytes << " bytes at " << to;
    ASSERT_TRUE(ReadFile(folder_ / "file") == model) << "through the page cache, after " << i << " writes";
  }
}

TEST_P(Writes, ExtendTheFile) {
  WriteFile(folder_ / "file", {1, 2, 3});
  Memory memory(1000);
  const uint64_t file = client().MustOpen("file", O_WRONLY);
  EXPECT_EQ(client().Write(file, 100'000, memory.Remote()), 1000);
  EXPECT_EQ(client().Write(file, 7, memory.Remote(0, 0)), 0);
  EXPECT_EQ(fs::file_size(folder_ / "file"), 101'000u);
}

TEST_P(Writes, OfManyClientsShareTheMemory) {
  server_config_.memory = 2 << 20;
  constexpr size_t kBytes = 1'000'001;
  Serve();
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::promise<int64_t>> results(8);
  for (size_t i = 0; i < results.size(); ++i) {
    clients.push_back(std::make_unique<Client>(client_config_));
    memories.push_back(std::make_unique<Memory>(kBytes));
    memories[i]->Set(Pattern(kBytes, i));
    const uint64_t file = clients[i]->MustOpen(std::to_string(i), O_WRONLY | O_CREAT);
    (*clients[i])->Write(file, 0, memories[i]->Remote(), [&, i](int64_t bytes) {
      results[i].set_value(bytes);
    });
  }
  for (auto& result : results) EXPECT_EQ(GetInTime(result.get_future()), static_cast<int64_t>(kBytes));
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_TRUE(ReadFile(folder_ / std::to_string(i)) == Pattern(kBytes, i)) << i;
  EXPECT_EQ(Statistics().buffers_used, 0u);
}

INSTANTIATE_TEST_SUITE_P(Io, Writes, testing::Values(IoMode::kAuto, IoMode::kBuffered),
                         [](const auto& of) { return of.param == IoMode::kAuto ? "Auto" : "Buffered"; });

using WriteErrors = Served;

TEST_F(WriteErrors, NameTheirCause) {
  WriteFile(folder_ / "file", {1, 2, 3});
  Memory memory(100);
  EXPECT_EQ(client().Write(client().MustOpen("file", O_RDONLY), 0, memory.Remote()), -EBADF);
  auto wrong_key = memory.Remote();
  wrong_key.access_key.rkeys[0] ^= 0x5a5a00;
  EXPECT_EQ(client().Write(client().MustOpen("file", O_WRONLY), 0, wrong_key), -EFAULT);
  EXPECT_EQ(ReadFile(folder_ / "file").size(), 3u);
}

TEST_F(WriteErrors, AreErofsInAReadOnlyFolder) {
  server_config_.read_only = true;
  WriteFile(folder_ / "file", {1, 2, 3});
  EXPECT_EQ(client().Open("file", O_WRONLY).first, EROFS);
  EXPECT_EQ(client().Open("new", O_RDWR | O_CREAT).first, EROFS);
  EXPECT_EQ(client().MakeDirectory("folder"), EROFS);
  EXPECT_EQ(client().Unlink("file"), EROFS);
  EXPECT_EQ(client().Rename("file", "other"), EROFS);
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  Memory memory(3);
  EXPECT_EQ(client().Write(file, 0, memory.Remote()), -EROFS);
  EXPECT_EQ(client().PunchHole(file, 0, 1), EROFS);
  EXPECT_EQ(client().ChangeAttributes(file, {.bytes = 0}), EROFS);
  EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, 3);
}

TEST_F(WriteErrors, AreEnospcOnAFullDisk) {
  const SmallFileSystem disk(folder_.path(), 4 << 20);
  if (disk.error() != 0) GTEST_SKIP() << "this user may not mount: " << std::strerror(disk.error());
  Memory memory(10 << 20);
  const auto pattern = Pattern(memory.size(), 1);
  memory.Set(pattern);
  const uint64_t file = client().MustOpen("file", O_RDWR | O_CREAT);
  // Piece by piece: of those of one write, a later one may take the last room.
  constexpr size_t kPiece = 100'000;
  int64_t written = 0, result = 0;
  while ((result = client().Write(file, static_cast<uint64_t>(written),
                                  memory.Remote(static_cast<size_t>(written), kPiece))) > 0)
    written += result;
  EXPECT_EQ(result, -ENOSPC);
  EXPECT_GT(written, 3 << 20);
  EXPECT_LE(written, 4 << 20);
  EXPECT_EQ(client().Write(file, 8 << 20, memory.Remote()), -ENOSPC);
  const auto stored = ReadFile(folder_ / "file");
  EXPECT_TRUE(std::equal(pattern.begin(), pattern.begin() + written, stored.begin()));
  EXPECT_EQ(client().ChangeAttributes(file, {.bytes = 0}), 0);
  EXPECT_EQ(client().Write(file, 0, memory.Remote(0, 1 << 20)), 1 << 20) << "there is room again";
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
