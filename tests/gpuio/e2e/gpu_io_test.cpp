#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "fake_cuda.hpp"
#include "gpuio/common/small_file_system.hpp"
#include "gpuio/e2e/remote_mount.hpp"
#include "snippets.h"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

/// Files into and out of GPU memory, which the processor faults on.
namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr size_t kBytes = 3'000'001;

std::string Text(size_t bytes, uint64_t seed = 1) {
  const auto pattern = Pattern(bytes, seed);
  return {pattern.begin(), pattern.end()};
}

struct GpuIo : testing::Test {
  static void SetUpTestSuite() { fake_cuda::Configure("gpus=2"); }

  std::string Contents(const RingedBuffer& buffer, size_t at, size_t bytes) const {
    return {reinterpret_cast<const char*>(fake_cuda::Reach(buffer.iov().base + at, bytes)), bytes};
  }
  void Fill(const RingedBuffer& buffer, const std::string& text) const {
    std::memcpy(fake_cuda::Reach(buffer.iov().base, text.size()), text.data(), text.size());
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(mount.File(name), std::ios::binary) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(mount.File(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  RemoteMount mount;
};

TEST_F(GpuIo, SnippetGoesThereAndBack) {
  EXPECT_EQ(snippet_gpu_round_trip(mount.path(), mount.File("file").c_str(), kBytes, 1), 0);
  const DaemonStatistics statistics = mount.Statistics();
  EXPECT_EQ(statistics.bytes_read, kBytes);
  EXPECT_EQ(statistics.bytes_written, kBytes);
  EXPECT_EQ(statistics.failures, 0u);
}

TEST_F(GpuIo, ReadsAndWritesEveryByte) {
  const std::string text = Text(kBytes);
  const RingedBuffer from(mount.path(), kBytes, 0), to(mount.path(), kBytes, 1);
  Fill(from, text);
  const OpenedHere file(mount.File("file"), O_RDWR | O_CREAT);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  EXPECT_EQ(from.Transfer(false, 0, file.fd, 0, kBytes), static_cast<int64_t>(kBytes));
  EXPECT_EQ(Read("file"), text);
  EXPECT_EQ(to.Transfer(true, 0, file.fd, 0, kBytes), static_cast<int64_t>(kBytes));
  EXPECT_EQ(Contents(to, 0, kBytes), text);
  hf3fs_dereg_fd(file.fd);
}

TEST_F(GpuIo, ReadsUnalignedRanges) {
  const std::string text = Text(kBytes);
  Write("file", text);
  const RingedBuffer buffer(mount.path(), kBytes, 0);
  const OpenedHere file(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  for (const auto& [at, offset, bytes] : {std::array<size_t, 3>{0, 0, 1},
                                          {1, 4095, 2},
                                          {77, 4096, 4096},
                                          {4095, 511, 1'000'003},
                                          {3, kBytes - 5, 5}}) {
    EXPECT_EQ(buffer.Transfer(true, at, file.fd, offset, bytes), static_cast<int64_t>(bytes));
    EXPECT_EQ(Contents(buffer, at, bytes), text.substr(offset, bytes)) << at << " " << offset << " " << bytes;
  }
  hf3fs_dereg_fd(file.fd);
}

TEST_F(GpuIo, StopsAtTheEndOfTheFile) {
  Write("file", "text");
  Write("empty", "");
  const RingedBuffer buffer(mount.path(), 4096, 0);
  Fill(buffer, std::string(4096, '#'));
  const OpenedHere file(mount.File("file"), O_RDONLY), empty(mount.File("empty"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  ASSERT_LE(hf3fs_reg_fd(empty.fd, 0), 0);
  EXPECT_EQ(buffer.Transfer(true, 10, file.fd, 2, 1000), 2);
  EXPECT_EQ(Contents(buffer, 9, 4), "#xt#");
  EXPECT_EQ(buffer.Transfer(true, 0, file.fd, 4, 1000), 0);
  EXPECT_EQ(buffer.Transfer(true, 0, empty.fd, 0, 1000), 0);
  EXPECT_EQ(Contents(buffer, 12, 4000), std::string(4000, '#'));
  hf3fs_dereg_fd(file.fd);
  hf3fs_dereg_fd(empty.fd);
}

TEST_F(GpuIo, ZeroesHolesOnTheGpu) {
  constexpr size_t kHole = 1 << 20;
  {
    const OpenedHere sparse(mount.File("sparse"), O_RDWR | O_CREAT);
    ASSERT_EQ(pwrite(sparse.fd, "begin", 5, 0), 5);
    ASSERT_EQ(pwrite(sparse.fd, "end", 3, 2 * kHole), 3);
    ASSERT_EQ(ftruncate(sparse.fd, 3 * kHole), 0);
  }
  const RingedBuffer buffer(mount.path(), 3 * kHole, 0),
      strict(mount.path(), 3 * kHole, 0, HF3FS_IOR_FORBID_READ_HOLES);
  Fill(buffer, std::string(3 * kHole, '#'));
  const OpenedHere file(mount.File("sparse"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  EXPECT_EQ(buffer.Transfer(true, 0, file.fd, 0, 3 * kHole), static_cast<int64_t>(3 * kHole));
  std::string expected(3 * kHole, '\0');
  expected.replace(0, 5, "begin");
  expected.replace(2 * kHole, 3, "end");
  EXPECT_EQ(Contents(buffer, 0, 3 * kHole), expected);
  EXPECT_GT(mount.Statistics().bytes_zeroed, 0u) << "the server sends no holes";
  Fill(buffer, std::string(3 * kHole, '#'));
  EXPECT_EQ(buffer.Transfer(true, 7, file.fd, kHole, 100), 100) << "all of it is a hole";
  EXPECT_EQ(Contents(buffer, 6, 102), "#" + std::string(100, '\0') + "#");
  EXPECT_EQ(strict.Transfer(true, 0, file.fd, 0, 3 * kHole), -ENODATA);
  EXPECT_EQ(strict.Transfer(true, 0, file.fd, 0, 5), 5);
  hf3fs_dereg_fd(file.fd);
}

/// Makes an exported dma-buf like those of most drivers: a process that gets one cannot write to it.
///
/// @param bytes  size of the export, which no other file has
void ForbidWritesToDmaBuf(size_t bytes) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    if (!std::filesystem::read_symlink(entry, closed).string().starts_with("/memfd:fake_cuda")) continue;
    if (std::filesystem::file_size(entry, closed) == bytes)
      fcntl(std::stoi(entry.path().filename()), F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  }
}

TEST_F(GpuIo, GetsZerosFromTheServerWhereTheDaemonCannotFill) {
  constexpr size_t kHole = 1 << 20;
  Write("sparse", "begin");
  ASSERT_EQ(truncate(mount.File("sparse").c_str(), kHole), 0);
  const RingedBuffer buffer(mount.path(), kHole, 0),
      strict(mount.path(), kHole, 0, HF3FS_IOR_FORBID_READ_HOLES);
  Fill(buffer, std::string(kHole, '#'));
  ForbidWritesToDmaBuf(kHole);
  const OpenedHere file(mount.File("sparse"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(buffer.Transfer(true, 0, file.fd, 0, kHole), static_cast<int64_t>(kHole));
    EXPECT_EQ(Contents(buffer, 0, kHole), "begin" + std::string(kHole - 5, '\0'));
    Fill(buffer, std::string(kHole, '#'));
  }
  EXPECT_EQ(mount.Statistics().bytes_zeroed, 0u);
  EXPECT_EQ(strict.Transfer(true, 0, file.fd, 0, kHole), -ENODATA);
  hf3fs_dereg_fd(file.fd);
}

/// Makes exports like those of NVIDIA's driver, which softhca cannot map. Outlives what a test allocates.
struct UnmappedExports {
  UnmappedExports() { fake_cuda::Configure("gpus=2,mapped_exports=0"); }
  ~UnmappedExports() { fake_cuda::Configure("gpus=2"); }
};

TEST_F(GpuIo, OpensMemoryByItsHandleWhereNoNicTakesTheDmaBuf) {
  const UnmappedExports exports;
  EXPECT_EQ(snippet_gpu_round_trip(mount.path(), mount.File("file").c_str(), kBytes, 1), 0);
  EXPECT_EQ(mount.Statistics().bytes_read, kBytes);
}

TEST_F(GpuIo, RegistersPartsOfAnAllocationOnce) {
  const UnmappedExports exports;
  constexpr size_t kWhole = 1 << 20, kPart = 4096;
  const host::GpuMemory memory(host::Gpu(0), kWhole);
  const uint8_t ids[2][16] = {{1}, {2}};
  hf3fs_iov whole{}, part{};
  ASSERT_EQ(hf3fs_iovwrap_gpu(&whole, memory.data(), ids[0], mount.path(), kWhole, 0, 0), 0);
  ASSERT_EQ(hf3fs_iovwrap_gpu(&part, memory.data() + 2 * kPart, ids[1], mount.path(), kPart, 0, 0), 0);
  EXPECT_EQ(mount.Statistics().gpu_buffers, 2u);
  EXPECT_EQ(mount.Statistics().registrations, 1u);
  hf3fs_iovdestroy(&whole);  // does not wait for the part
  EXPECT_EQ(mount.Statistics().registrations, 1u) << "the part has it";
  const std::string text = Text(kPart);
  Write("file", text);
  hf3fs_ior ior{};
  ASSERT_EQ(hf3fs_iorcreate(&ior, mount.path(), 8, true, 0, -1), 0);
  const OpenedHere file(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  ASSERT_GE(hf3fs_prep_io(&ior, &part, true, part.base, file.fd, 0, kPart, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior), 0);
  EXPECT_EQ(WaitForOne(ior).result, static_cast<int64_t>(kPart));
  std::string found(kPart, '\0');
  memory.CopyOut(2 * kPart, std::as_writable_bytes(std::span(found)));
  EXPECT_TRUE(found == text);
  hf3fs_dereg_fd(file.fd);
  hf3fs_iordestroy(&ior);
  hf3fs_iovdestroy(&part);
  EXPECT_EQ(mount.Statistics().registrations, 0u);
}

TEST_F(GpuIo, WritesBehindTheEndLeaveAHole) {
  const RingedBuffer buffer(mount.path(), 4096, 1);
  Fill(buffer, "text");
  const OpenedHere file(mount.File("file"), O_RDWR | O_CREAT);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  EXPECT_EQ(buffer.Transfer(false, 0, file.fd, 10'000, 4), 4);
  EXPECT_EQ(Read("file"), std::string(10'000, '\0') + "text");
  hf3fs_dereg_fd(file.fd);
}

TEST_F(GpuIo, OverwritesAFileOfOddLengthManyTimes) {
  constexpr size_t kOdd = 100'003;  // its last page is written in part directly, in part by the page cache
  const RingedBuffer from(mount.path(), kOdd, 0), to(mount.path(), kOdd, 0);
  const OpenedHere file(mount.File("file"), O_RDWR | O_CREAT);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  for (int round = 0; round < 200; ++round) {
    const std::string text(kOdd, static_cast<char>(round));
    Fill(from, text);
    ASSERT_EQ(from.Transfer(false, 0, file.fd, 0, kOdd), static_cast<int64_t>(kOdd));
    ASSERT_EQ(to.Transfer(true, 0, file.fd, 0, kOdd), static_cast<int64_t>(kOdd));
    ASSERT_EQ(Contents(to, 0, kOdd), text) << round;
  }
  hf3fs_dereg_fd(file.fd);
}

TEST_F(GpuIo, WrapsPartOfAnAllocation) {
  const std::string text = Text(500'000);
  Write("file", text);
  const host::GpuMemory memory(host::Gpu(0), 1 << 20);
  const uint8_t id[16] = {9};
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovwrap_gpu(&iov, memory.data() + 12'345, id, mount.path(), text.size(), 0, 0), 0);
  hf3fs_ior ior{};
  ASSERT_EQ(hf3fs_iorcreate(&ior, mount.path(), 8, true, 0, -1), 0);
  const OpenedHere file(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  ASSERT_GE(hf3fs_prep_io(&ior, &iov, true, iov.base, file.fd, 0, text.size(), nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior), 0);
  EXPECT_EQ(WaitForOne(ior).result, static_cast<int64_t>(text.size()));
  std::string around(text.size() + 2, '\0');
  memory.CopyOut(12'344, std::as_writable_bytes(std::span(around)));
  EXPECT_EQ(around, std::string(1, '\0') + text + std::string(1, '\0'));
  hf3fs_dereg_fd(file.fd);
  hf3fs_iordestroy(&ior);
  hf3fs_iovdestroy(&iov);
}

TEST_F(GpuIo, MovesManyBlocksAtATime) {
  constexpr size_t kBlock = 65'536, kBlocks = 32;
  const std::string text = Text(kBlock * kBlocks);
  Write("file", text);
  const RingedBuffer buffer(mount.path(), text.size(), 0);
  const OpenedHere file(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  for (size_t block = 0; block < kBlocks; ++block) {
    const size_t at = kBlock * ((block * 7) % kBlocks);
    ASSERT_GE(hf3fs_prep_io(&buffer.ring(true), &buffer.iov(), true, buffer.iov().base + at, file.fd, at,
                            kBlock, nullptr),
              0);
  }
  ASSERT_EQ(hf3fs_submit_ios(&buffer.ring(true)), 0);
  hf3fs_cqe cqes[kBlocks];
  ASSERT_EQ(hf3fs_wait_for_ios(&buffer.ring(true), cqes, kBlocks, kBlocks, nullptr),
            static_cast<int>(kBlocks));
  for (const hf3fs_cqe& cqe : cqes) EXPECT_EQ(cqe.result, static_cast<int64_t>(kBlock));
  EXPECT_EQ(Contents(buffer, 0, text.size()), text);
  hf3fs_dereg_fd(file.fd);
}

TEST_F(GpuIo, WritesNothingToAReadOnlyServer) {
  Write("file", "text");
  const RingedBuffer buffer(mount.path(), 4096, 0);
  const OpenedHere file(mount.File("file"), O_RDWR), other(mount.File("file"), O_RDWR),
      readable(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  mount.RestartServer(true);
  EXPECT_EQ(buffer.Transfer(false, 0, file.fd, 0, 4), -EROFS);
  hf3fs_dereg_fd(file.fd);
  EXPECT_EQ(hf3fs_reg_fd(other.fd, 0), EROFS);
  ASSERT_LE(hf3fs_reg_fd(readable.fd, 0), 0);
  EXPECT_EQ(buffer.Transfer(true, 0, readable.fd, 0, 4), 4);
  EXPECT_EQ(Contents(buffer, 0, 4), "text");
  hf3fs_dereg_fd(readable.fd);
}

TEST_F(GpuIo, FillsADiskAndSaysSo) {
  constexpr size_t kDisk = 1 << 20, kPiece = 100'000;
  const SmallFileSystem disk(mount.File("small"), kDisk);
  if (disk.error() != 0) GTEST_SKIP() << "this user may not mount: " << std::strerror(disk.error());
  const std::string text = Text(2 * kDisk);
  const RingedBuffer from(mount.path(), text.size(), 0), to(mount.path(), text.size(), 1);
  Fill(from, text);
  const OpenedHere file(mount.File("small/file"), O_RDWR | O_CREAT);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  size_t written = 0;
  int64_t result = 0;
  while (written < kDisk && (result = from.Transfer(false, written, file.fd, written, kPiece)) > 0)
    written += static_cast<size_t>(result);
  EXPECT_GT(written, kDisk - kPiece) << "the last piece is written as far as there was room";
  EXPECT_EQ(from.Transfer(false, 0, file.fd, written, kPiece), -ENOSPC);
  EXPECT_GE(to.Transfer(true, 0, file.fd, 0, text.size()), static_cast<int64_t>(written))
      << "pieces of the last write behind those that had no room may have found some";
  EXPECT_EQ(Contents(to, 0, written), text.substr(0, written));
  hf3fs_dereg_fd(file.fd);
}

/// 8 MiB and 30 small files; 1 GiB and 10,000 with WARPVERBS_SOAK_SECONDS.
TEST_F(GpuIo, MovesALargeFileAndManySmallOnes) {
  const bool soaks = std::getenv("WARPVERBS_SOAK_SECONDS") != nullptr;
  constexpr size_t kPiece = 4 << 20, kSmall = 5000;
  const size_t pieces = soaks ? 256 : 2, files = soaks ? 10'000 : 30;
  const RingedBuffer from(mount.path(), kPiece, 0), to(mount.path(), kPiece, 1);
  {
    const OpenedHere large(mount.File("large"), O_RDWR | O_CREAT);
    ASSERT_LE(hf3fs_reg_fd(large.fd, 0), 0);
    for (size_t piece = 0; piece < pieces; ++piece) {
      Fill(from, Text(kPiece, piece));
      ASSERT_EQ(from.Transfer(false, 0, large.fd, piece * kPiece, kPiece), static_cast<int64_t>(kPiece));
    }
    for (size_t piece = pieces; piece-- > 0;) {
      ASSERT_EQ(to.Transfer(true, 0, large.fd, piece * kPiece, kPiece), static_cast<int64_t>(kPiece));
      ASSERT_EQ(Contents(to, 0, kPiece), Text(kPiece, piece)) << piece;
    }
    hf3fs_dereg_fd(large.fd);
  }
  for (size_t i = 0; i < files; ++i) {
    const std::string text = Text(kSmall, i);
    Fill(from, text);
    const OpenedHere file(mount.File("small" + std::to_string(i)), O_RDWR | O_CREAT);
    ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
    ASSERT_EQ(from.Transfer(false, 0, file.fd, 0, kSmall), static_cast<int64_t>(kSmall));
    ASSERT_EQ(to.Transfer(true, 0, file.fd, 0, kPiece), static_cast<int64_t>(kSmall));
    ASSERT_EQ(Contents(to, 0, kSmall), text) << i;
    hf3fs_dereg_fd(file.fd);
  }
  EXPECT_EQ(mount.Statistics().files, 0u);
}

TEST_F(GpuIo, ReportsAFileThatIsReadOnly) {
  Write("file", "text");
  const RingedBuffer buffer(mount.path(), 4096, 0);
  const OpenedHere file(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  EXPECT_EQ(
      hf3fs_prep_io(&buffer.ring(false), &buffer.iov(), false, buffer.iov().base, file.fd, 0, 1, nullptr),
      -EACCES);
  hf3fs_dereg_fd(file.fd);
}

/// Files over the NICs of two devices; without GPUs a device is a NIC.
struct FilesOfTwoDevices : testing::Test {
  static void SetUpTestSuite() { fake_cuda::Configure("gpus=0"); }

  FilesOfTwoDevices() {
    OnLoop(loop, [this] {
      FileClientConfig config;
      config.servers = {{"127.0.0.1", mount.port()}};
      client.emplace(config, loop);
      files.emplace(*client, config, loop);
    });
  }
  ~FilesOfTwoDevices() override {
    OnLoop(loop, [this] {
      files.reset();
      client.reset();
    });
  }

  /// Starts a call on the loop, and waits for what its callback gets.
  template <class Value, class Start>
  Value Call(const Start& start) {
    auto result = std::make_shared<std::promise<Value>>();
    auto future = result->get_future();
    OnLoop(loop, [&] { start([result](Value value) { result->set_value(std::move(value)); }); });
    return GetInTime(std::move(future));
  }
  uint64_t Open(const std::string& name) {
    return Call<uint64_t>([&](auto done) {
      files->Open(name, O_RDWR, [done](int, const OpenedFile& opened) { done(opened.file); });
    });
  }
  int64_t Read(uint64_t file, const RegisteredRange& target) {
    return Call<ReadResult>([&](auto done) { files->Read(file, 0, target, Holes::kSend, done); }).result;
  }

  RemoteMount mount;
  transport::EventLoop loop;
  std::optional<FileClient> client;
  std::optional<ServerFiles> files;
};

TEST_F(FilesOfTwoDevices, ReachMemoryByTheNicsThatItIsRegisteredOn) {
  ASSERT_NE(transport::RdmaTransport::NicsOf(0), transport::RdmaTransport::NicsOf(1));
  const std::string text = Text(kBytes);
  std::ofstream(mount.File("file"), std::ios::binary) << text;
  std::string first(kBytes, '\0'), second(kBytes, '\0');
  const transport::RdmaMemory on_first(first.data(), kBytes, 0), on_second(second.data(), kBytes, 1);
  const uint64_t file = Open("file");
  EXPECT_EQ(Read(file, {on_first.Remote(), 0}), static_cast<int64_t>(kBytes));
  EXPECT_EQ(Read(file, {on_second.Remote(), 1}), static_cast<int64_t>(kBytes));
  EXPECT_TRUE(first == text);
  EXPECT_TRUE(second == text);
  const std::string other = Text(kBytes, 2);
  std::copy(other.begin(), other.end(), second.begin());
  const auto written = Call<int64_t>([&](auto done) {
    files->Write(file, 0, {on_second.Remote(), 1}, done);
  });
  EXPECT_EQ(written, static_cast<int64_t>(kBytes));
  EXPECT_EQ(Read(file, {on_first.Remote(), 0}), static_cast<int64_t>(kBytes));
  EXPECT_TRUE(first == other);
  OnLoop(loop, [&] { files->Close(file); });
  EXPECT_EQ(Read(file, {on_second.Remote(), 1}), -EBADF);
}

TEST_F(FilesOfTwoDevices, FollowRenames) {
  std::ofstream(mount.File("old")) << "text";
  std::string second(4, '\0');
  const transport::RdmaMemory on_second(second.data(), second.size(), 1);
  const auto rename = [this](const char* from, const char* to) {
    return Call<int>([&](auto done) { client->Rename(from, to, 0, done); });
  };
  const uint64_t file = Open("old");
  EXPECT_EQ(rename("old", "new"), 0);
  EXPECT_EQ(Read(file, {on_second.Remote(), 1}), 4);
  EXPECT_EQ(rename("new", "newer"), 0);
  mount.RestartServer(false);  // files are opened again by their paths
  int64_t result = 0;
  EXPECT_TRUE(Eventually([&] { return (result = Read(file, {on_second.Remote(), 1})) == 4; })) << result;
  EXPECT_EQ(second, "text");
}

TEST_F(FilesOfTwoDevices, CompleteWhatWasSubmittedBeforeTheFileIsClosed) {
  std::ofstream(mount.File("file")) << "text";
  std::string second(4, '\0');
  const transport::RdmaMemory on_second(second.data(), second.size(), 1);
  const uint64_t file = Open("file");
  const auto result = Call<ReadResult>([&](auto done) {
    files->Read(file, 0, {on_second.Remote(), 1}, Holes::kSend, done);
    files->Close(file);
  });
  EXPECT_EQ(result.result, 4);
  EXPECT_EQ(second, "text");
  EXPECT_EQ(Read(file, {on_second.Remote(), 1}), -EBADF);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
