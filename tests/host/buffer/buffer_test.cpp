#include "warpverbs/host/buffer.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <stdexcept>

#include "common/open_files.hpp"
#include "fake_cuda.hpp"
#include "host/buffer/buffer_traffic.hpp"
#include "host/gpu/driver_memory.hpp"
#include "host/gpu/gpu_failures.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

/// Buffers of every kind of memory, with a NIC that writes to them.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

constexpr size_t kSome = 70'000;

class Buffers : public testing::Test {
 protected:
  Buffers() { fake_cuda::Configure(""); }
  ~Buffers() override { EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked"; }

  /// Returns a memory file that only the caller holds.
  static FileDescriptor Memfd(size_t bytes) {
    FileDescriptor file(memfd_create("memory", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    return file;
  }

  /// Checks that the NIC writes to the buffer, and from it to another one.
  void ExpectTraffic(const Buffer& buffer) const {
    const HostPages source(kSome), target(kSome);
    const auto from = WrapPointer(source.data(), buffer.size());
    const auto to = WrapPointer(target.data(), buffer.size());
    from->CopyIn(0, Pattern(buffer.size(), 1));
    EXPECT_TRUE(WriteBuffer(device_, *from, buffer)) << buffer.name();
    EXPECT_EQ(Contents(buffer), Pattern(buffer.size(), 1)) << buffer.name();
    EXPECT_TRUE(WriteBuffer(device_, buffer, *to)) << buffer.name();
    EXPECT_EQ(Contents(*to), Pattern(buffer.size(), 1)) << buffer.name();
  }

  Device device_;
};

TEST_F(Buffers, AreZeroedCopiedAndReachedByTheNic) {
  const Gpu gpu;
  const std::unique_ptr<MemoryKind> kinds[] = {std::make_unique<HostMemoryKind>(),
                                               std::make_unique<PinnedMemoryKind>(gpu),
                                               std::make_unique<CudaMemoryKind>(gpu)};
  for (const auto& kind : kinds) {
    const auto buffer = kind->Allocate(60'000);
    EXPECT_GE(buffer->size(), 60'000);
    EXPECT_EQ(Contents(*buffer), std::vector<std::byte>(buffer->size())) << kind->name();
    buffer->CopyIn(100, Pattern(50, 9));
    std::vector<std::byte> back(50);
    buffer->CopyOut(100, back);
    EXPECT_EQ(back, Pattern(50, 9)) << kind->name();
    ExpectTraffic(*buffer);
  }
}

TEST_F(Buffers, AreMappedHostMemoryOnAnIntegratedGpu) {
  fake_cuda::Configure("integrated=1");
  const auto buffer = CudaMemoryKind(Gpu()).Allocate(60'000);
  EXPECT_EQ(fake_cuda::Calls("cuMemAlloc_v2"), 0);
  EXPECT_EQ(fake_cuda::Calls("cuMemHostRegister_v2"), 1);
  EXPECT_EQ(buffer->size(), 65536);
  EXPECT_EQ(buffer->Register(device_).method(), RegistrationMethod::kHost);
  ExpectTraffic(*buffer);
  EXPECT_THROW(CudaMemoryKind(Gpu()).Allocate(0), Error);
  EXPECT_THROW(CudaMemoryKind(Gpu()).Allocate(~size_t{0}), Error);
}

TEST_F(Buffers, RejectRangesOutside) {
  const Gpu gpu;
  const GpuMemory foreign(gpu, 4096);
  HostPages pages(4096);
  const std::unique_ptr<Buffer> buffers[] = {
      HostMemoryKind().Allocate(4096), CudaMemoryKind(gpu).Allocate(4096), WrapPointer(foreign.data(), 4096),
      WrapPointer(pages.data(), 4096),
      WrapDmaBuf({Memfd(4096), 0x10000, 4096}, reinterpret_cast<void*>(0x10000), 4096)};
  for (const auto& buffer : buffers) {
    std::byte byte{};
    buffer->CopyIn(buffer->size(), {});
    EXPECT_THROW(buffer->CopyIn(buffer->size(), {&byte, 1}), std::out_of_range) << buffer->name();
    EXPECT_THROW(buffer->CopyOut(SIZE_MAX, {&byte, 1}), std::out_of_range) << buffer->name();
  }
}

TEST_F(Buffers, RejectZeroBytes) {
  const Gpu gpu;
  HostPages pages(4096);
  EXPECT_THROW(HostMemoryKind().Allocate(0), Error);
  EXPECT_THROW(PinnedMemoryKind(gpu).Allocate(0), Error);
  EXPECT_THROW(CudaMemoryKind(gpu).Allocate(0), Error);
  for (const size_t bytes : {~size_t{0}, ~size_t{0} - 65535, ~size_t{0} / 2 + 1}) {
    EXPECT_THROW(HostMemoryKind().Allocate(bytes), Error) << "rounding up to whole pages overflows";
    EXPECT_THROW(CudaMemoryKind(gpu).Allocate(bytes), Error);
  }
  EXPECT_THROW(WrapPointer(pages.data(), 0), Error);
  EXPECT_THAT(WhyRefused([] { WrapPointer(nullptr, 8); }),
              HasSubstr("8 bytes of unallocated memory: nothing is"));
}

TEST_F(Buffers, WrapPointersOfFrameworks) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 2 * kSome);
  const VmmMemory vmm(1);
  for (const size_t offset : {0, 1, 4095, 4096, 65537}) {
    const GpuMemory own(gpu, 2 * kSome);  // new memory: a page of the fake has one export
    ExpectTraffic(*WrapPointer(own.data() + offset, 5000));
  }
  ExpectTraffic(*WrapPointer(vmm.data(), VmmMemory::kChunk));
}

TEST_F(Buffers, HaveGivenAddressesOnlyForFiles) {
  const uint64_t start = 0x1001001800000000;
  void* const place = reinterpret_cast<void*>(start + 4097);
  const auto buffer = WrapDmaBuf({Memfd(16 * 4096), start, 16 * 4096}, place, 9000);
  EXPECT_EQ(buffer->data(), place);
  EXPECT_EQ(buffer->Register(device_).View().addr, start + 4097);
  ExpectTraffic(*buffer);
}

TEST_F(Buffers, ReportATruncatedFileWithoutSigbus) {
  FileDescriptor file = Memfd(8192);
  const FileDescriptor others = file.Duplicate();
  const auto buffer = WrapDmaBuf({std::move(file), 0x10000, 8192}, reinterpret_cast<void*>(0x10000), 8192);
  ASSERT_EQ(ftruncate(others.get(), 4096), 0);
  std::vector<std::byte> bytes(8192);
  EXPECT_THAT(WhyRefused([&] { buffer->CopyOut(0, bytes); }),
              HasSubstr("Cannot read 8192 bytes of a dma-buf: the file was truncated. "));
  EXPECT_THAT(WhyRefused([&] { buffer->CopyIn(4000, std::span(bytes).first(97)); }),
              HasSubstr("Cannot write 97 bytes of a dma-buf: the file was truncated. "));
  EXPECT_EQ(lseek(others.get(), 0, SEEK_END), 4096) << "the file was not extended";
  buffer->CopyIn(4000, Pattern(96, 1));
  buffer->CopyOut(4000, std::span(bytes).first(96));
  bytes.resize(96);
  EXPECT_EQ(bytes, Pattern(96, 1));
}

TEST_F(Buffers, CopyByMappingIfAFileCannotBeRead) {
  FileDescriptor file(open("/dev/zero", O_RDWR | O_CLOEXEC));  // not a regular file, like a dma-buf
  const auto buffer = WrapDmaBuf({std::move(file), 0x10000, 8192}, reinterpret_cast<void*>(0x10000), 8192);
  std::vector<std::byte> bytes(8192, std::byte{1});
  buffer->CopyIn(0, bytes);
  buffer->CopyOut(0, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(8192));
}

TEST_F(Buffers, AcceptFileDescriptor0) {
  const FileDescriptor kept(fcntl(0, F_DUPFD_CLOEXEC, 3));
  {
    FileDescriptor file = Memfd(8192);
    ASSERT_EQ(dup2(file.get(), 0), 0);
    const auto buffer =
        WrapDmaBuf({FileDescriptor(0), 0x20000, 8192}, reinterpret_cast<void*>(0x20000), 8192);
    ExpectTraffic(*buffer);
    EXPECT_EQ(fcntl(0, F_GETFD), 0) << "the file is still open";
  }
  EXPECT_EQ(fcntl(0, F_GETFD), -1) << "the file was closed";
  if (kept) dup2(kept.get(), 0);
}

TEST_F(Buffers, RejectInvalidFiles) {
  void* const place = reinterpret_cast<void*>(0x10000);
  EXPECT_THAT(WhyRefused([] { DmaBuf(FileDescriptor(), 0, 4096); }), HasSubstr("no file is passed"));
  EXPECT_THAT(WhyRefused([] { DmaBuf(Memfd(4096), 0, 0); }), HasSubstr("it is empty"));
  EXPECT_THAT(WhyRefused([] { DmaBuf(Memfd(4096), 8, 4096); }), HasSubstr("its address is not page-aligned"));
  EXPECT_THAT(WhyRefused([] { DmaBuf(Memfd(4096), 0, 8192); }), HasSubstr("the file has 4096. Pass"));
  const DmaBuf file(Memfd(4096), 0x10000, 4096);
  EXPECT_THAT(WhyRefused([&] {
                WrapDmaBuf({Memfd(4096), 0x10000, 4096}, place, 4097);
              }),
              HasSubstr("the range is outside of it"));
  EXPECT_THAT(WhyRefused([&] { MemoryRegion(device_, file, static_cast<std::byte*>(place) - 1, 8, {}); }),
              HasSubstr("the dma-buf has 4096 bytes and does not cover the range"));
}

TEST_F(Buffers, LeaveNoFileOpen) {
  const Gpu gpu;
  const auto on_gpu = CudaMemoryKind(gpu).Allocate(4096);
  const auto by_file = WrapDmaBuf({Memfd(4096), 0x10000, 4096}, reinterpret_cast<void*>(0x10000), 4096);
  on_gpu->Register(device_);
  const size_t before = OpenFiles();
  for (int times = 0; times < 1000; ++times) {
    const MemoryRegion one = on_gpu->Register(device_);
    const MemoryRegion other = by_file->Register(device_);
    const DmaBuf exported = by_file->Export();
    ASSERT_NE(one.View().rkey, other.View().rkey);
  }
  EXPECT_EQ(OpenFiles(), before);
}

TEST_F(Buffers, ReportEveryFailedCallWithoutLeaks) {
  EXPECT_GT(ForEachFailure([&] {
              const Gpu gpu;
              const auto pinned = PinnedMemoryKind(gpu).Allocate(64);
              const auto buffer = CudaMemoryKind(gpu).Allocate(64);
              const auto wrapped = WrapPointer(buffer->data(), 64);
              wrapped->CopyIn(0, Pattern(64, 1));
              wrapped->Register(device_);
            }),
            20);
}

}  // namespace
}  // namespace warpverbs::host
