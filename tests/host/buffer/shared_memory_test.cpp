#include "warpverbs/host/shared_memory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fake_cuda.hpp"
#include "host/gpu/driver_memory.hpp"
#include "host/gpu/gpu_failures.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/pointer_info.hpp"

/// Descriptions of shared memory, their transfer over a socket, and sharing within one process.
namespace warpverbs::host {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

Deadline Soon() { return std::chrono::steady_clock::now() + milliseconds(30'000); }
Deadline Now() { return std::chrono::steady_clock::now(); }

SharedMemoryInfo SomeInfo() {
  return {.kind = ShareKind::kDmaBuf,
          .bytes = 100,
          .offset = 8,
          .allocation_bytes = 4096,
          .address = 0x7f0000000008,
          .buffer_id = 42,
          .process = 7,
          .pci_address = {"0000:41:00.0"},
          .handle = {1, 2, 3}};
}

/// Returns a file of one page.
FileDescriptor OnePage() {
  FileDescriptor file(memfd_create("page", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), 4096), 0);
  return file;
}

bool IsClosedOnExec(int fd) { return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(SharedMemoryInfo, RoundTripsThroughBytes) {
  const auto bytes = SomeInfo().ToBytes();
  EXPECT_EQ(SharedMemoryInfo::FromBytes(bytes), SomeInfo());
  EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + 4), "WVSM");
  EXPECT_EQ(Bytes(bytes.end() - 4, bytes.end()), (Bytes{0xf5, 0x03, 0x47, 0x77})) << "of all bytes before it";
}

TEST(SharedMemoryInfo, RejectsAnyDamagedByte) {
  const auto whole = SomeInfo().ToBytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] ^= 0x10;
    EXPECT_THROW(SharedMemoryInfo::FromBytes(damaged), Error) << at;
  }
}

TEST(SharedMemoryInfo, RejectsOtherLengths) {
  const auto whole = SomeInfo().ToBytes();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(SharedMemoryInfo::FromBytes(std::span(whole).first(length)), Error) << length;
  }
  Bytes longer(whole.begin(), whole.end());
  longer.push_back(0);
  EXPECT_EQ(
      WhyRefused([&] { SharedMemoryInfo::FromBytes(longer); }),
      "Cannot read the description of shared memory: it has 161 bytes, not 160. Send it again, whole and "
      "unchanged.");
}

TEST(SharedMemoryInfo, RejectsOtherVersions) {
  auto bytes = SomeInfo().ToBytes();
  bytes[5] = 9;
  EXPECT_EQ(WhyRefused([&] { SharedMemoryInfo::FromBytes(bytes); }),
            "Cannot read the description of shared memory: it has version 9, not 1. Use the same release of "
            "warpverbs on both sides.");
}

TEST(SharedMemoryInfo, RejectsFieldsOutOfRange) {
  const auto refused = [](const auto& change) {
    SharedMemoryInfo info = SomeInfo();
    change(info);
    return WhyRefused([&] { SharedMemoryInfo::FromBytes(info.ToBytes()); });
  };
  EXPECT_THAT(refused([](auto& info) { info.kind = ShareKind{9}; }), HasSubstr("the kind is out of range"));
  EXPECT_THAT(refused([](auto& info) { info.bytes = 0; }), HasSubstr("the size is out of range"));
  EXPECT_THAT(refused([](auto& info) { info.bytes = 5000; }), HasSubstr("the size is out of range"));
  EXPECT_THAT(refused([](auto& info) { info.offset = 3997; }), HasSubstr("the offset is out of range"));
  EXPECT_THAT(refused([](auto& info) { info.offset = UINT64_MAX; }), HasSubstr("the offset is out of range"));
  EXPECT_THAT(refused([](auto& info) { info.address = 7; }), HasSubstr("the address is out of range"));
  EXPECT_THAT(refused([](auto& info) { info.pci_address.fill('x'); }),
              HasSubstr("the PCI address is out of"));
}

TEST(SharedMemoryInfo, TellsProcessesApart) {
  const uint64_t here = SharedMemoryInfo::ThisProcess();
  EXPECT_EQ(here, SharedMemoryInfo::ThisProcess());
  EXPECT_NE(here, 0);
}

class ShareSocketTest : public testing::Test {
 protected:
  explicit ShareSocketTest(int type = SOCK_STREAM) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    here_ = FileDescriptor(ends[0]);
    there_ = FileDescriptor(ends[1]);
  }

  std::string WhyNotReceived(Deadline deadline = Soon()) {
    return WhyRefused([&] { ReceiveShared(there_.get(), deadline); });
  }
  void SendRaw(std::span<const uint8_t> bytes) {
    ASSERT_EQ(send(here_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  FileDescriptor here_, there_;
};

TEST_F(ShareSocketTest, PassesADescriptionAndItsFile) {
  SharedMemory sent{SomeInfo(), OnePage()};
  ASSERT_EQ(pwrite(sent.file.get(), "here", 5, 8), 5);
  SendShared(here_.get(), sent, Soon());
  const SharedMemory received = ReceiveShared(there_.get(), Soon());
  EXPECT_EQ(received.info, sent.info);
  EXPECT_NE(received.file.get(), sent.file.get());
  EXPECT_TRUE(IsClosedOnExec(received.file.get()));
  char text[5] = {};
  EXPECT_EQ(pread(received.file.get(), text, 5, 8), 5);
  EXPECT_STREQ(text, "here");
}

TEST_F(ShareSocketTest, ReadsADescriptionByteByByte) {
  SharedMemoryInfo info = SomeInfo();
  info.kind = ShareKind::kCudaIpc;
  for (const uint8_t byte : info.ToBytes()) SendRaw({&byte, 1});
  EXPECT_EQ(ReceiveShared(there_.get(), Soon()).info, info);
}

TEST_F(ShareSocketTest, GivesUpAtTheDeadline) {
  EXPECT_EQ(
      WhyNotReceived(Now()),
      "Cannot receive shared memory over a socket: the deadline passed. Check that the peer runs, or give "
      "it more time.");
  EXPECT_THAT(WhyNotReceived(Now() + milliseconds(5)), HasSubstr("the deadline passed"));
  const auto bytes = SomeInfo().ToBytes();
  SendRaw(std::span(bytes).first(20));
  EXPECT_THAT(WhyNotReceived(Now() + milliseconds(5)), HasSubstr("the deadline passed")) << "half way";
  SharedMemoryInfo info = SomeInfo();
  info.kind = ShareKind::kCudaIpc;
  EXPECT_THAT(WhyRefused([&] {
                for (;;)
                  SendShared(here_.get(), {info}, Now() + milliseconds(5));  // until its buffer is full
              }),
              HasSubstr("Cannot send shared memory over a socket: the deadline passed"));
}

TEST_F(ShareSocketTest, ReportsThatThePeerClosed) {
  const auto bytes = SomeInfo().ToBytes();
  SendRaw(std::span(bytes).first(20));
  here_ = FileDescriptor();
  EXPECT_THAT(WhyNotReceived(), HasSubstr("the peer closed the socket after 20 of 160 bytes"));
  EXPECT_THAT(WhyRefused([&] {
                SendShared(there_.get(), {SomeInfo(), OnePage()}, Soon());
              }),
              HasSubstr("Cannot send shared memory over a socket: Broken pipe"));
}

TEST_F(ShareSocketTest, RejectsADescriptionWithoutItsFile) {
  SendRaw(SomeInfo().ToBytes());
  EXPECT_THAT(WhyNotReceived(), HasSubstr("0 file(s) came with it instead of 1"));
}

TEST_F(ShareSocketTest, ClosesFilesOfADamagedDescription) {
  SharedMemory sent{SomeInfo(), OnePage()};
  const int next = FileDescriptor(sent.file.Duplicate()).get();
  sent.info.kind = ShareKind::kCudaIpc;  // a kind without a file
  SendShared(here_.get(), sent, Soon());
  EXPECT_THAT(WhyNotReceived(), HasSubstr("1 file(s) came with it instead of 0"));
  EXPECT_EQ(FileDescriptor(sent.file.Duplicate()).get(), next) << "a descriptor is left open";
}

TEST_F(ShareSocketTest, RejectsOtherKindsOfFiles) {
  const FileDescriptor file = OnePage();
  EXPECT_THAT(WhyRefused([&] {
                SendShared(file.get(), {SomeInfo(), OnePage()}, Soon());
              }),
              HasSubstr("Use a connected Unix socket"));
}

class SharePacketSocketTest : public ShareSocketTest {
 protected:
  SharePacketSocketTest() : ShareSocketTest(SOCK_SEQPACKET) {}
};

TEST_F(SharePacketSocketTest, PassesADescriptionAndItsFile) {
  SendShared(here_.get(), {SomeInfo(), OnePage()}, Soon());
  EXPECT_EQ(ReceiveShared(there_.get(), Soon()).info, SomeInfo());
}

/// Sharing of GPU memory, with the fake driver.
class SharedGpuMemory : public testing::Test {
 protected:
  SharedGpuMemory() { fake_cuda::Configure("gpus=2"); }
  ~SharedGpuMemory() override {
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked";
    EXPECT_EQ(fake_cuda::ContextDepth(), 0);
  }
};

TEST_F(SharedGpuMemory, KeepsTheOffsetOfAnInnerPointer) {
  const Gpu gpu(1);
  const GpuMemory memory(gpu, 100'000);
  const PointerInfo what = DescribePointer(memory.data());
  const SharedMemoryInfo info = ShareByIpc(memory.data() + 5000, 100).info;
  EXPECT_EQ(info.kind, ShareKind::kCudaIpc);
  EXPECT_EQ(info.bytes, 100);
  EXPECT_EQ(info.offset, reinterpret_cast<uint64_t>(memory.data() + 5000) - what.base);
  EXPECT_EQ(info.allocation_bytes, what.bytes);
  EXPECT_EQ(info.buffer_id, what.buffer_id);
  EXPECT_STREQ(info.pci_address.data(), "0000:42:00.0");
  EXPECT_EQ(SharedMemoryInfo::FromBytes(info.ToBytes()), info);
}

TEST_F(SharedGpuMemory, IsTheSameMemoryInItsOwnProcess) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  const auto opened = Open(ShareByIpc(memory.data() + 8, 64));
  EXPECT_EQ(opened->data(), memory.data() + 8);
  EXPECT_EQ(opened->size(), 64);
  EXPECT_EQ(fake_cuda::Calls("cuIpcOpenMemHandle_v2"), 0);
}

TEST_F(SharedGpuMemory, ReportsThatItWasFreed) {
  const Gpu gpu;
  SharedMemory shared;
  {
    const GpuMemory memory(gpu, 4096);
    shared = ShareByIpc(memory.data(), 4096);
  }
  const GpuMemory other(gpu, 4096);  // reuses its address
  EXPECT_THAT(WhyRefused([&] { Open(std::move(shared)); }), HasSubstr("they were freed. Keep the memory"));
}

/// What a peer may answer that has had a description of ours: one of other memory, with the right number of
/// the process, and with numbers of buffers that are easy to guess.
TEST_F(SharedGpuMemory, OpensOfItsOwnMemoryOnlyWhatItShared) {
  const Gpu gpu;
  const GpuMemory secret(gpu, 65536), memory(gpu, 65536);
  const SharedMemoryInfo sent = ShareByIpc(memory.data() + 4096, 4096).info;
  const auto refused = [&](const auto& change) {
    SharedMemoryInfo forged = sent;
    change(forged);
    return WhyRefused([&] { Open({SharedMemoryInfo::FromBytes(forged.ToBytes())}); });
  };
  const auto is_refused = HasSubstr("this process has not shared them. Pass a description that ShareByIpc()");
  EXPECT_THAT(refused([&](auto& info) {
                info.address = reinterpret_cast<uint64_t>(secret.data());
                info.offset = 0;
                info.buffer_id = DescribePointer(secret.data()).buffer_id;
              }),
              is_refused);
  EXPECT_THAT(refused([](auto& info) { info.address -= 4096; }), is_refused) << "before the shared part";
  EXPECT_THAT(refused([](auto& info) {
                info.bytes = 1 << 30;
                info.allocation_bytes = uint64_t{1} << 40;
              }),
              is_refused)
      << "more than was shared, and than is allocated";
  EXPECT_EQ(Open({sent})->data(), memory.data() + 4096);
}

TEST_F(SharedGpuMemory, OpensMemoryThatWasSharedBeforeManyOthers) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  const SharedMemoryInfo first = ShareByIpc(memory.data(), 4096).info;
  for (int i = 0; i < 200; ++i) {
    const GpuMemory other(gpu, 4096);
    ShareByIpc(other.data(), 4096);
  }
  EXPECT_EQ(Open({first})->data(), memory.data());
}

TEST_F(SharedGpuMemory, RejectsMemoryThatCannotBeShared) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  const VmmMemory vmm(2), closed(1, {.handle_types = 0});
  HostPages pages(4096);
  EXPECT_EQ(
      WhyRefused([&] { ShareByIpc(pages.data(), 64); }),
      "Cannot share 64 bytes of host memory: it is not GPU memory. Share memory of cudaMalloc(), or share "
      "host memory by a file.");
  EXPECT_EQ(WhyRefused([&] { ShareByIpc(vmm.data(), 64); }),
            "Cannot share 64 bytes of GPU memory by cuMemCreate(): such memory has no IPC handle. Share "
            "it by its handle or by dma-buf, and pass the file over a Unix socket.");
  EXPECT_THAT(WhyRefused([&] { ShareByIpc(memory.data(), 1 << 20); }),
              HasSubstr("they are not within one allocation"));
  EXPECT_THAT(WhyRefused([&] { ShareByHandle(memory.data(), 64); }),
              HasSubstr("cuMemCreate() did not make it"));
  EXPECT_THAT(WhyRefused([&] { ShareByHandle(closed.data(), 64); }),
              HasSubstr("CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"));
  EXPECT_THAT(WhyRefused([&] { ShareByHandle(vmm.data(), VmmMemory::kChunk + 1); }),
              HasSubstr("they are not within one mapping"));
  EXPECT_THAT(WhyRefused([&] { ShareByDmaBuf(*WrapPointer(pages.data(), 64)); }),
              HasSubstr("no driver exports this kind of memory"));
}

TEST_F(SharedGpuMemory, UsesTheFirstMethodThatWorks) {
  const auto way = [](void* memory) { return Share(memory, 64).info.kind; };
  {
    const Gpu gpu;
    const GpuMemory memory(gpu, 4096);
    EXPECT_EQ(way(memory.data()), ShareKind::kDmaBuf);
  }
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  const VmmMemory vmm(1), closed(1, {.handle_types = 0});
  EXPECT_EQ(way(memory.data()), ShareKind::kCudaIpc);
  EXPECT_EQ(way(vmm.data()), ShareKind::kVmmHandle);
  EXPECT_THAT(WhyRefused([&] { way(closed.data()); }),
              testing::AllOf(HasSubstr(": by dma-buf: "),
                             HasSubstr("; by handle: it was not created for export as a"),
                             HasSubstr("; by IPC: such memory has no IPC handle. Share")));
}

TEST_F(SharedGpuMemory, RejectsAGpuThatThisProcessDoesNotSee) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  SharedMemory shared = ShareByIpc(memory.data(), 4096);
  ++shared.info.process;
  shared.info.pci_address = {"0000:99:00.0"};
  EXPECT_EQ(WhyRefused([&] { Open({shared.info}); }),
            "Cannot open 4096 bytes that another process shares by CUDA IPC: its GPU, 0000:99:00.0, is not "
            "among the "
            "2 that this process sees. Check CUDA_VISIBLE_DEVICES.");
  shared.info.kind = ShareKind::kVmmHandle;
  EXPECT_THAT(WhyRefused([&] { Open({shared.info}); }), HasSubstr("its file is missing"));
  shared.info.kind = ShareKind::kDmaBuf;
  EXPECT_THAT(WhyRefused([&] { Open({shared.info}); }), HasSubstr("no file is passed"));
}

TEST_F(SharedGpuMemory, MapsAHandleAtAnotherAddress) {
  const Gpu gpu;
  const VmmMemory memory(2);
  SharedMemory shared = ShareByHandle(memory.data() + VmmMemory::kChunk + 100, 64);
  EXPECT_TRUE(IsClosedOnExec(shared.file.get()));
  EXPECT_EQ(shared.info.offset, 100);
  const auto opened = Open(std::move(shared));
  EXPECT_NE(opened->data(), memory.data() + VmmMemory::kChunk + 100);
  EXPECT_EQ(opened->size(), 64);
  const std::vector<std::byte> in(64, std::byte{0x17});
  opened->CopyIn(0, in);
  EXPECT_EQ(*fake_cuda::Reach(memory.data() + VmmMemory::kChunk + 163, 1), std::byte{0x17});
}

TEST_F(SharedGpuMemory, ReportsEveryFailedCallWithoutLeaks) {
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  const VmmMemory vmm(1);
  EXPECT_GT(ForEachFailure([&] {
              ShareByIpc(memory.data(), 64);
              const auto opened = Open(ShareByHandle(vmm.data(), 64));
            }),
            20);
}

}  // namespace
}  // namespace warpverbs::host
