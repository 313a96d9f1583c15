#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "fake_cuda.hpp"
#include "fake_gaudi.hpp"
#include "fake_hip.hpp"
#include "host/buffer/buffer_traffic.hpp"
#include "host/gpu/gpu_failures.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/gaudi.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/hip.hpp"

/// Copies between buffers of any two kinds of memory.
namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kPiece = Buffer::kPieceBytes;
constexpr size_t kWhole = 3 * kPiece;

/// Returns a buffer of a file, at an address that no processor uses.
std::unique_ptr<Buffer> FileMemory(size_t bytes) {
  constexpr uint64_t kStart = 0x7001001800000000;
  FileDescriptor file(memfd_create("memory", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return WrapDmaBuf({std::move(file), kStart, bytes}, reinterpret_cast<void*>(kStart), bytes);
}

/// A part of another buffer, wrapped by its address.
class Wrapped final : public MemoryKind {
 public:
  explicit Wrapped(std::unique_ptr<MemoryKind> kind) : kind_(std::move(kind)) {}
  std::string name() const override { return "a framework's " + kind_->name(); }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override {
    owners_.push_back(kind_->Allocate(bytes + kHead));
    return WrapPointer(owners_.back()->data() + kHead, bytes);
  }

 private:
  static constexpr size_t kHead = 333;
  std::unique_ptr<MemoryKind> kind_;
  mutable std::vector<std::unique_ptr<Buffer>> owners_;
};

class FileKind final : public MemoryKind {
 public:
  std::string name() const override { return "a file"; }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override { return FileMemory(bytes); }
};

class BufferCopies : public testing::Test {
 protected:
  BufferCopies() {
    fake_cuda::Configure("gpus=2,megabytes=128");
    fake_hip::Configure({.devices = 2});
    fake_gaudi::Configure({});
  }
  ~BufferCopies() override {
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked";
    EXPECT_EQ(fake_cuda::ContextDepth(), 0);
    EXPECT_EQ(fake_hip::HeldNow(), 0);
    EXPECT_EQ(fake_hip::CurrentDevice(), 0);
  }

  /// Returns all kinds of memory that can be copied.
  static std::vector<std::unique_ptr<MemoryKind>> AllKinds() {
    std::vector<std::unique_ptr<MemoryKind>> kinds;
    kinds.push_back(std::make_unique<HostMemoryKind>());
    kinds.push_back(std::make_unique<PinnedMemoryKind>(Gpu(0)));
    kinds.push_back(std::make_unique<CudaMemoryKind>(Gpu(0)));
    kinds.push_back(std::make_unique<CudaMemoryKind>(Gpu(1)));
    kinds.push_back(std::make_unique<HipMemoryKind>(HipGpu(0)));
    kinds.push_back(std::make_unique<HipMemoryKind>(HipGpu(1)));
    kinds.push_back(std::make_unique<FileKind>());
    kinds.push_back(std::make_unique<Wrapped>(std::make_unique<HostMemoryKind>()));
    kinds.push_back(std::make_unique<Wrapped>(std::make_unique<CudaMemoryKind>(Gpu(1))));
    kinds.push_back(std::make_unique<Wrapped>(std::make_unique<HipMemoryKind>(HipGpu(1))));
    return kinds;
  }
};

/// Copies a part of one pattern into the middle of another, and checks every byte of both.
void ExpectCopy(const Buffer& from, size_t offset, const Buffer& to, size_t to_offset, size_t bytes) {
  const std::string pair = from.name() + " to " + to.name() + ", " + std::to_string(bytes) + " bytes";
  const std::vector<std::byte> source = Pattern(from.size(), 1);
  std::vector<std::byte> expected = Pattern(to.size(), 99);
  from.CopyIn(0, source);
  to.CopyIn(0, expected);
  from.CopyTo(offset, to, to_offset, bytes);
  const auto begin = source.begin() + static_cast<ptrdiff_t>(offset);
  std::copy_n(begin, bytes, expected.begin() + static_cast<ptrdiff_t>(to_offset));
  EXPECT_TRUE(Same(Contents(to), expected)) << pair;
  EXPECT_TRUE(Same(Contents(from), source)) << pair;
}

TEST_F(BufferCopies, FillsMemoryOfAnyKind) {
  for (const auto& kind : AllKinds()) {
    const std::unique_ptr<Buffer> buffer = kind->Allocate(kWhole);
    std::vector<std::byte> expected(kWhole, std::byte{0x11});
    buffer->CopyIn(0, expected);
    const auto fill = [&](size_t offset, size_t bytes, std::byte value) {
      buffer->Fill(offset, bytes, value);
      std::fill_n(expected.begin() + static_cast<ptrdiff_t>(offset), bytes, value);
    };
    fill(0, 1, std::byte{0x22});
    fill(777, 2 * kPiece + 1, std::byte{0});
    fill(kWhole - 1, 1, std::byte{0xff});
    fill(kWhole, 0, std::byte{0x33});
    std::vector<std::byte> found(kWhole);
    buffer->CopyOut(0, found);
    EXPECT_TRUE(Same(found, expected)) << kind->name();
    EXPECT_THROW(buffer->Fill(kWhole, buffer->size(), std::byte{0}), std::out_of_range) << kind->name();
    EXPECT_THROW(buffer->Fill(1, ~size_t{0}, std::byte{0}), std::out_of_range) << kind->name();
  }
}

TEST_F(BufferCopies, FillsMemoryOfAGpuByTheGpu) {
  const std::unique_ptr<Buffer> buffer = CudaMemoryKind(Gpu(0)).Allocate(kWhole);
  const int before = fake_cuda::Calls("cuMemsetD8Async"), copies = fake_cuda::Calls("cuMemcpyHtoDAsync_v2");
  buffer->Fill(5, kWhole - 5, std::byte{7});
  EXPECT_EQ(fake_cuda::Calls("cuMemsetD8Async"), before + 1);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyHtoDAsync_v2"), copies);
}

TEST_F(BufferCopies, CopyExactlyTheRangeBetweenAnyTwoKinds) {
  for (const auto& from_kind : AllKinds()) {
    for (const auto& to_kind : AllKinds()) {
      const auto from = from_kind->Allocate(kPiece + 65536), to = to_kind->Allocate(kPiece + 65536);
      ExpectCopy(*from, 7, *to, 4099, kPiece + 12'345);
      ExpectCopy(*from, 4097, *to, 3, 1);
    }
  }
}

TEST_F(BufferCopies, EndAtWholePiecesAndCopyNothingIfEmpty) {
  const auto from = CudaMemoryKind(Gpu()).Allocate(kWhole), to = FileMemory(kWhole);
  for (const size_t bytes : {size_t{0}, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece, kWhole}) {
    ExpectCopy(*from, kWhole - bytes, *to, 0, bytes);
    ExpectCopy(*to, 0, *from, kWhole - bytes, bytes);
  }
}

TEST_F(BufferCopies, UseOneCallWithinADriver) {
  const auto one = CudaMemoryKind(Gpu(0)).Allocate(kWhole), same = CudaMemoryKind(Gpu(0)).Allocate(kWhole),
             other = CudaMemoryKind(Gpu(1)).Allocate(kWhole);
  one->CopyTo(1, *same, 2, 2 * kPiece);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyDtoDAsync_v2"), 1);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyPeerAsync"), 0);
  one->CopyTo(1, *other, 2, 2 * kPiece);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyPeerAsync"), 1);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyDtoHAsync_v2"), 0) << "nothing goes through the host";
}

TEST_F(BufferCopies, GoThroughHostPiecesBetweenDrivers) {
  const auto from = CudaMemoryKind(Gpu()).Allocate(kWhole), to = HipMemoryKind(HipGpu()).Allocate(kWhole);
  from->CopyTo(0, *to, 0, 2 * kPiece + 1);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyDtoHAsync_v2"), 3);
}

TEST_F(BufferCopies, NeedNoPiecesToAndFromTheHost) {
  const auto on_gpu = CudaMemoryKind(Gpu()).Allocate(kWhole), on_host = HostMemoryKind().Allocate(kWhole);
  on_gpu->CopyTo(0, *on_host, 0, kWhole);
  on_host->CopyTo(0, *on_gpu, 0, kWhole);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyDtoHAsync_v2"), 1);
  EXPECT_EQ(fake_cuda::Calls("cuMemcpyHtoDAsync_v2"), 1);
}

/// Copies within one buffer and checks all of it.
void ExpectMove(const Buffer& buffer, const Buffer& same, size_t offset, size_t to_offset, size_t bytes) {
  std::vector<std::byte> expected = Pattern(buffer.size(), 5);
  buffer.CopyIn(0, expected);
  buffer.CopyTo(offset, same, to_offset, bytes);
  std::memmove(expected.data() + to_offset, expected.data() + offset, bytes);
  EXPECT_TRUE(Same(Contents(buffer), expected)) << buffer.name() << " from " << offset << " to " << to_offset;
}

TEST_F(BufferCopies, ActLikeMemmoveOnOverlappingRanges) {
  for (const auto& kind : AllKinds()) {
    const auto buffer = kind->Allocate(kWhole);
    for (const size_t shift : {size_t{1}, size_t{4096}, kPiece, kPiece + 5}) {
      const size_t bytes = buffer->size() - shift;
      ExpectMove(*buffer, *buffer, 0, shift, bytes);
      ExpectMove(*buffer, *buffer, shift, 0, bytes);
    }
    ExpectMove(*buffer, *buffer, 3, 3, 1000);
  }
}

TEST_F(BufferCopies, ActLikeMemmoveOnOverlappingBuffers) {
  const auto owner = CudaMemoryKind(Gpu()).Allocate(kWhole);
  const auto same = WrapPointer(owner->data(), owner->size());
  ExpectMove(*owner, *same, 0, 100, 2 * kPiece);
  ExpectMove(*owner, *same, 100, 0, 2 * kPiece);
}

TEST_F(BufferCopies, RejectRangesOutsideBeforeCopyingAnyByte) {
  for (const auto& kind : AllKinds()) {
    const auto from = kind->Allocate(65536), to = kind->Allocate(65536);
    const size_t end = from->size(), to_end = to->size();
    from->CopyIn(0, Pattern(end, 1));
    to->CopyIn(0, Pattern(to_end, 2));
    from->CopyTo(end, *to, to_end, 0);
    EXPECT_THROW(from->CopyTo(end, *to, 0, 1), std::out_of_range) << kind->name();
    EXPECT_THROW(from->CopyTo(0, *to, to_end - 9, 10), std::out_of_range) << kind->name();
    EXPECT_THROW(from->CopyTo(SIZE_MAX - 1, *to, 0, 8), std::out_of_range) << "the sum overflows";
    EXPECT_THROW(from->CopyTo(0, *to, SIZE_MAX - 1, 8), std::out_of_range);
    EXPECT_THROW(from->CopyTo(8, *to, 8, SIZE_MAX), std::out_of_range);
    EXPECT_THROW(from->CopyTo(end + 1, *to, 0, 0), std::out_of_range);
    EXPECT_TRUE(Contents(*to) == Pattern(to_end, 2)) << kind->name();
  }
}

TEST_F(BufferCopies, RejectMemoryThatCannotBeCopied) {
  const auto gaudi = GaudiMemoryKind(Gaudi()).Allocate(2 * kPiece);
  for (const auto& kind : AllKinds()) {
    const auto other = kind->Allocate(2 * kPiece);
    EXPECT_THAT(WhyRefused([&] { gaudi->CopyTo(1, *other, 0, 100); }),
                HasSubstr("Cannot read 100 bytes of memory of gaudi:0000:33:00.0: the processor cannot"));
    EXPECT_THAT(WhyRefused([&] { other->CopyTo(1, *gaudi, 0, 100); }),
                HasSubstr("Cannot write 100 bytes of memory of gaudi:0000:33:00.0: the processor cannot"));
  }
  EXPECT_THAT(WhyRefused([&] { gaudi->CopyTo(0, *gaudi, 4096, 64); }), HasSubstr("hl-thunk copies nothing"));
}

TEST_F(BufferCopies, ReportFailuresWithoutLeaks) {
  fake_cuda::FailCall("cuMemcpyPeerAsync", 1);
  {
    const auto one = CudaMemoryKind(Gpu(0)).Allocate(64), other = CudaMemoryKind(Gpu(1)).Allocate(64);
    EXPECT_THAT(WhyRefused([&] { one->CopyTo(0, *other, 0, 64); }),
                AllOf(HasSubstr("Cannot copy 64 bytes of memory of cuda:0: "), HasSubstr("CUDA_ERROR_")));
    const auto hip = HipMemoryKind(HipGpu(0)).Allocate(64), hip_other = HipMemoryKind(HipGpu(1)).Allocate(64);
    fake_hip::Configure({.devices = 2, .fail_call = 2});  // call 1 queries the current GPU
    EXPECT_THAT(WhyRefused([&] { hip->CopyTo(0, *hip_other, 0, 64); }),
                HasSubstr("Cannot copy 64 bytes of memory of hip:0: "));
  }
  EXPECT_GT(ForEachFailure([] {
              const auto one = CudaMemoryKind(Gpu(0)).Allocate(64),
                         other = CudaMemoryKind(Gpu(1)).Allocate(64);
              one->CopyTo(0, *other, 0, 64);
              one->CopyTo(0, *one, 1, 64);
              one->CopyTo(0, *FileMemory(4096), 1, 64);
            }),
            20);
}

}  // namespace
}  // namespace warpverbs::host
