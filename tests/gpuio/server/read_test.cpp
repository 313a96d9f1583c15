#include <fcntl.h>
#include <linux/falloc.h>

#include <random>

#include "gpuio/protocol/messages.hpp"
#include "gpuio/server/held_disk.hpp"
#include "gpuio/server/served.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

namespace fs = std::filesystem;

/// Makes a file of data at some places and holes between them; writes the same into the model.
void WriteSparse(const fs::path& path, std::vector<uint8_t>& model, const std::vector<Range>& parts) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(model.size())), 0);
  for (const Range& part : parts) {
    const auto bytes = Pattern(part.bytes, part.offset);
    ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(part.offset)),
              static_cast<ssize_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<ptrdiff_t>(part.offset));
  }
  ASSERT_EQ(fsync(fd), 0);
  close(fd);
}

/// Direct and buffered I/O read the same.
class Reads : public Served, public testing::WithParamInterface<IoMode> {
 protected:
  Reads() { server_config_.mode = GetParam(); }
};

TEST_P(Reads, BringAWholeFile) {
  const auto pattern = Pattern(5'000'001, 1);
  WriteFile(folder_ / "file", pattern);
  ReadResult result;
  EXPECT_EQ(ReadBack("file", 0, pattern.size(), result), pattern);
  EXPECT_EQ(result.result, 5'000'001);
  EXPECT_TRUE(result.holes.empty());
}

TEST_P(Reads, StartAndEndAnywhere) {
  const auto pattern = Pattern(1'500'000, 2);
  WriteFile(folder_ / "file", pattern);
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  Memory memory(pattern.size());
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; ++i) {
    const size_t offset = random() % pattern.size();
    const size_t bytes =
        1 + random() % std::min<size_t>(pattern.size() - offset, i % 2 == 0 ? 9000 : 1'000'000);
    const size_t at = random() % (memory.size() - bytes + 1);
    std::fill(memory.bytes().begin(), memory.bytes().end(), uint8_t{0xee});
    const ReadResult result = client().Read(file, offset, memory.Remote(at, bytes));
    ASSERT_EQ(result.result, static_cast<int64_t>(bytes));
    ASSERT_TRUE(std::equal(pattern.begin() + static_cast<ptrdiff_t>(offset),
                           pattern.begin() + static_cast<ptrdiff_t>(offset + bytes), memory.data() + at))
        << bytes << " bytes at " << offset;
    const auto untouched =
        std::count(memory.bytes().begin(), memory.bytes().begin() + static_cast<ptrdiff_t>(at), 0xee) +
        std::count(memory.bytes().begin() + static_cast<ptrdiff_t>(at + bytes), memory.bytes().end(), 0xee);
    ASSERT_EQ(static_cast<size_t>(untouched), memory.size() - bytes) << "the server wrote beside the buffer";
  }
}

TEST_P(Reads, EndAtTheEndOfTheFile) {
  const auto pattern = Pattern(600'000, 3);
  WriteFile(folder_ / "file", pattern);
  ReadResult result;
  const auto bytes = ReadBack("file", 599'000, 700'000, result);
  EXPECT_EQ(result.result, 1000);
  EXPECT_TRUE(std::equal(pattern.end() - 1000, pattern.end(), bytes.begin()));
  EXPECT_EQ(std::count(bytes.begin() + 1000, bytes.end(), 0xee), 699'000) << "what is behind the end stays";
  ReadBack("file", 600'000, 10, result);
  EXPECT_EQ(result.result, 0);
  ReadBack("file", uint64_t{1} << 40, 10, result);
  EXPECT_EQ(result.result, 0);
}

TEST_P(Reads, OfEmptyFilesAndEmptyBuffersBringNothing) {
  WriteFile(folder_ / "empty", {});
  WriteFile(folder_ / "file", {1, 2, 3});
  ReadResult result;
  ReadBack("empty", 0, 100, result);
  EXPECT_EQ(result.result, 0);
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  Memory memory(1);
  EXPECT_EQ(client().Read(file, 1, memory.Remote(0, 0)).result, 0);
}

TEST_P(Reads, SkipHolesAndListThem) {
  std::vector<uint8_t> model(4 << 20, 0);
  WriteSparse(folder_ / "file", model, {{1 << 20, 64 << 10}, {(3 << 20) - 4096, 8192}});
  ReadResult result;
  auto bytes = ReadBack("file", 0, model.size(), result);
  ASSERT_EQ(result.result, static_cast<int64_t>(model.size()));
  constexpr uint64_t kMiB = 1 << 20, kKiB = 1 << 10;
  EXPECT_THAT(result.holes,
              testing::ElementsAre(Range{0, kMiB}, Range{kMiB + 64 * kKiB, 2 * kMiB - 68 * kKiB},
                                   Range{3 * kMiB + 4 * kKiB, kMiB - 4 * kKiB}));
  for (const Range& hole : result.holes) {
    const auto begin = bytes.begin() + static_cast<ptrdiff_t>(hole.offset),
               end = begin + static_cast<ptrdiff_t>(hole.bytes);
    EXPECT_EQ(std::count(begin, end, 0xee), static_cast<ptrdiff_t>(hole.bytes))
        << "the server wrote into a hole";
    std::fill(begin, end, uint8_t{0});
  }
  EXPECT_EQ(bytes, model);
}

TEST_P(Reads, SendHolesIfAsked) {
  std::vector<uint8_t> model(2 << 20, 0);
  WriteSparse(folder_ / "file", model, {{1 << 20, 64 << 10}});
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  Memory memory(model.size());
  const ReadResult result = client().Read(file, 0, memory.Remote(), Holes::kSend);
  EXPECT_EQ(result.result, static_cast<int64_t>(model.size()));
  EXPECT_TRUE(result.holes.empty());
  EXPECT_TRUE(memory.bytes() == model);
}

TEST_P(Reads, ListHolesAsTheBufferHasThem) {
  std::vector<uint8_t> model(1 << 20, 0);
  WriteSparse(folder_ / "file", model, {{0, 4096}, {512 << 10, 4096}});
  ReadResult result;
  ReadBack("file", 10'000, 600'000, result);
  EXPECT_THAT(result.holes, testing::ElementsAre(Range{0, (512 << 10) - 10'000},
                                                 Range{(516 << 10) - 10'000, 610'000 - (516 << 10)}));
}

TEST_P(Reads, OfNothingButAHoleCountItsBytes) {
  std::vector<uint8_t> model(10'000'000, 0);
  WriteSparse(folder_ / "file", model, {});
  ReadResult result;
  const auto bytes = ReadBack("file", 5'000'000, 6'000'000, result);
  EXPECT_EQ(result.result, 5'000'000);
  EXPECT_THAT(result.holes, testing::ElementsAre(Range{0, 5'000'000}));
  EXPECT_EQ(static_cast<size_t>(std::count(bytes.begin(), bytes.end(), 0xee)), bytes.size());
}

TEST_P(Reads, EndWhereAFileIsTruncatedMeanwhile) {
  constexpr size_t kBytes = 4 << 20, kLeft = (1 << 20) + 3;
  const auto pattern = Pattern(kBytes, 1);
  WriteFile(folder_ / "file", pattern);
  // The server knows the size by then.
  server_config_.wrap_disk =
      BeforeTheFirstRead([path = folder_ / "file"] { std::filesystem::resize_file(path, kLeft); });
  ReadResult read;
  const auto bytes = ReadBack("file", 0, kBytes, read);
  EXPECT_EQ(read.result, static_cast<int64_t>(kLeft));
  EXPECT_TRUE(std::equal(pattern.begin(), pattern.begin() + kLeft, bytes.begin()));
  EXPECT_TRUE(std::all_of(bytes.begin() + kLeft, bytes.end(), [](uint8_t byte) { return byte == 0xee; }));
}

TEST_P(Reads, SeeHolesThatAreMadeMeanwhile) {
  const auto pattern = Pattern(1 << 20, 4);
  WriteFile(folder_ / "file", pattern);
  const uint64_t file = client().MustOpen("file", O_RDWR);
  Memory memory(1 << 20);
  EXPECT_TRUE(client().Read(file, 0, memory.Remote()).holes.empty());
  const int error = client().PunchHole(file, 4096, 65536);
  if (error == EOPNOTSUPP) GTEST_SKIP() << "the file system has no holes";
  ASSERT_EQ(error, 0);
  EXPECT_THAT(client().Read(file, 0, memory.Remote()).holes, testing::ElementsAre(Range{4096, 65536}));
}

TEST_P(Reads, SeeHolesThatOthersMakeIfAskedTo) {
  WriteFile(folder_ / "file", Pattern(1 << 20, 4));
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  Memory memory(1 << 20);
  EXPECT_TRUE(client().Read(file, 0, memory.Remote()).holes.empty());
  const int here = open((folder_ / "file").c_str(), O_RDWR);
  const int error = fallocate(here, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 65536, 65536);
  close(here);
  if (error != 0) GTEST_SKIP() << "the file system has no holes";
  EXPECT_THAT(client().Read(file, 0, memory.Remote(), Holes::kListExactly).holes,
              testing::ElementsAre(Range{65536, 65536}));
}

TEST_P(Reads, OfMoreHolesThanAReplyListsBringZeros) {
  std::vector<uint8_t> model(18 << 20, 0);
  std::vector<Range> parts;
  for (uint64_t at = 0; at < model.size(); at += 8192) parts.push_back({at, 100});
  WriteSparse(folder_ / "file", model, parts);
  ReadResult result;
  auto bytes = ReadBack("file", 0, model.size(), result);
  ASSERT_EQ(result.result, static_cast<int64_t>(model.size()));
  EXPECT_EQ(result.holes.size(), protocol::kMaxHoles);
  for (const Range& hole : result.holes)
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(hole.offset), hole.bytes, uint8_t{0});
  EXPECT_EQ(bytes, model);
}

TEST_P(Reads, NeedMuchLessMemoryThanTheyBring) {
  server_config_.memory = 1 << 20;
  const auto pattern = Pattern(8 << 20, 5);
  WriteFile(folder_ / "file", pattern);
  ReadResult result;
  EXPECT_EQ(ReadBack("file", 0, pattern.size(), result), pattern);
  EXPECT_EQ(Statistics().buffers, 4u);
}

TEST_P(Reads, RunInParallel) {
  constexpr size_t kFiles = 50, kBytes = 700'000;
  Memory memory(kFiles * kBytes);
  std::vector<uint64_t> files;
  for (size_t i = 0; i < kFiles; ++i) {
    WriteFile(folder_ / std::to_string(i), Pattern(kBytes, i));
    files.push_back(client().MustOpen(std::to_string(i), O_RDONLY));
  }
  std::vector<std::promise<int64_t>> results(4 * kFiles);  // more than the server takes at a time
  for (size_t i = 0; i < results.size(); ++i) {
    client()->Read(files[i % kFiles], 0, memory.Remote(i % kFiles * kBytes, kBytes),
                   [&, i](const ReadResult& result) { results[i].set_value(result.result); });
  }
  for (auto& result : results) EXPECT_EQ(GetInTime(result.get_future()), static_cast<int64_t>(kBytes));
  for (size_t i = 0; i < kFiles; ++i) {
    const auto begin = memory.bytes().begin() + static_cast<ptrdiff_t>(i * kBytes);
    EXPECT_EQ(std::vector<uint8_t>(begin, begin + kBytes), Pattern(kBytes, i)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Io, Reads, testing::Values(IoMode::kAuto, IoMode::kBuffered),
                         [](const auto& of) { return of.param == IoMode::kAuto ? "Auto" : "Buffered"; });

using ReadErrors = Served;

TEST_F(ReadErrors, NameTheirCause) {
  fs::create_directory(folder_ / "folder");
  WriteFile(folder_ / "file", {1, 2, 3});
  Memory memory(100);
  EXPECT_EQ(client().Open("nothing", O_RDONLY).first, ENOENT);
  EXPECT_EQ(client().Read(client().MustOpen("folder", O_RDONLY), 0, memory.Remote()).result, -EISDIR);
  EXPECT_EQ(client().Read(client().MustOpen("file", O_WRONLY), 0, memory.Remote()).result, -EBADF);
  EXPECT_EQ(client().Read(12345, 0, memory.Remote()).result, -EBADF);
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  EXPECT_EQ(client().Read(file, INT64_MAX, memory.Remote()).result, -EINVAL);
  client().Close(file);
  EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, -EBADF);
}

TEST_F(ReadErrors, AreEfaultForMemoryThatIsNotTheClients) {
  const auto pattern = Pattern(1000, 1);
  WriteFile(folder_ / "file", pattern);
  Memory memory(1000), other(1000);
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  auto wrong_key = memory.Remote();
  wrong_key.access_key.rkeys[0] ^= 0x5a5a00;
  EXPECT_EQ(client().Read(file, 0, wrong_key).result, -EFAULT);
  const transport::RdmaRemoteBuffer behind{memory.data() + 500, memory.key(), 1000};
  EXPECT_EQ(client().Read(file, 0, behind).result, -EFAULT);
  EXPECT_EQ(client().Read(file, 0, memory.Remote()).result, 1000) << "the next connection serves the rest";
  EXPECT_EQ(memory.bytes(), pattern);
}

TEST_F(ReadErrors, AreOfTheReadThatIsToBlameOnly) {
  constexpr size_t kReads = 8, kBytes = 2 << 20;
  const auto pattern = Pattern(kBytes, 1);
  WriteFile(folder_ / "file", pattern);
  Memory memory(kReads * kBytes);
  const uint64_t file = client().MustOpen("file", O_RDONLY);
  std::vector<std::promise<int64_t>> results(kReads + 1);
  for (size_t i = 0; i <= kReads; ++i) {
    auto target = memory.Remote(i % kReads * kBytes, kBytes);
    if (i == kReads) target.access_key.rkeys[0] ^= 0x5a5a00;
    client()->Read(file, 0, target,
                   [&, i](const ReadResult& result) { results[i].set_value(result.result); });
  }
  for (size_t i = 0; i <= kReads; ++i)
    EXPECT_EQ(GetInTime(results[i].get_future()), i == kReads ? -EFAULT : static_cast<int64_t>(kBytes)) << i;
}

using ServerStatistics = Served;

TEST_F(ServerStatistics, CountWhatMoved) {
  std::vector<uint8_t> model(1 << 20, 0);
  WriteSparse(folder_ / "file", model, {{0, 4096}});
  ReadResult result;
  ReadBack("file", 0, model.size(), result);
  Memory memory(1000);
  client().Write(client().MustOpen("new", O_WRONLY | O_CREAT), 0, memory.Remote());
  client().Open("nothing", O_RDONLY);
  const FileServerStatistics statistics = Statistics();
  EXPECT_EQ(statistics.bytes_read, 4096u);
  EXPECT_EQ(statistics.hole_bytes, (1u << 20) - 4096);
  EXPECT_EQ(statistics.bytes_written, 1000u);
  EXPECT_EQ(statistics.errors, 1u);
  EXPECT_EQ(statistics.clients_now, 1u);
  EXPECT_THAT(statistics.ToText(), testing::HasSubstr("bytes read 4096, bytes written 1000"));
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
