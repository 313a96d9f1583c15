#include <gmock/gmock.h>

#include <cerrno>

#include "fake_cuda.hpp"
#include "host/buffer/buffer_traffic.hpp"
#include "host/buffer/child.hpp"
#include "host/gpu/driver_memory.hpp"
#include "host/memory/registration_calls.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/shared_memory.hpp"

/// Memory of one process in another one, with a NIC. A parent must not have touched a GPU before it forks.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class Sharing : public testing::Test {
 protected:
  ~Sharing() override { EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked"; }
};

std::unique_ptr<Buffer> Filled(std::unique_ptr<Buffer> buffer, unsigned seed) {
  buffer->CopyIn(0, Pattern(buffer->size(), seed));
  return buffer;
}

TEST_F(Sharing, NeedsNoCudaInTheReceiverOfADmaBuf) {
  Child child([](int socket) {
    const int before = fake_cuda::Calls("cuInit");  // calls of the parent before the fork
    const auto opened = Open(ReceiveShared(socket, InAMinute()));
    EXPECT_EQ(Contents(*opened), Pattern(10'000, 1));
    const Device device;
    const auto source = Filled(HostMemoryKind().Allocate(10'000), 2);
    EXPECT_TRUE(WriteBuffer(device, *WrapPointer(source->data(), 10'000), *opened));
    EXPECT_EQ(fake_cuda::Calls("cuInit"), before) << "the receiver needs no CUDA";
    Go(socket);
  });
  fake_cuda::Configure("");
  const Gpu gpu;
  const GpuMemory memory(gpu, 65536);
  const auto part = Filled(WrapPointer(memory.data() + 5000, 10'000), 1);
  SendShared(child.socket(), ShareByDmaBuf(*part), InAMinute());
  AwaitGo(child.socket());
  EXPECT_EQ(Contents(*part), Pattern(10'000, 2));
  std::vector<std::byte> around(10'002);
  memory.CopyOut(4999, around);
  EXPECT_EQ(around.front(), std::byte{});
  EXPECT_EQ(around.back(), std::byte{});
}

TEST_F(Sharing, ShowsWritesOfTheOwnersNicByIpc) {
  Child child([](int socket) {
    fake_cuda::Configure("dma_buf=0");
    auto opened = Open(ReceiveShared(socket, InAMinute()));
    EXPECT_EQ(opened->size(), 10'000);
    EXPECT_EQ(opened->name(), "memory of cuda:0 that another process shares");
    Go(socket);
    AwaitGo(socket);
    EXPECT_EQ(Contents(*opened), Pattern(10'000, 3));
    opened->CopyIn(0, Pattern(10, 4));
    opened.reset();  // before the comparison
    Go(socket);
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "the child leaks";
  });
  fake_cuda::Configure("dma_buf=0");
  const Gpu gpu;
  const GpuMemory memory(gpu, 65536);
  const auto part = WrapPointer(memory.data() + 5000, 10'000);
  SendShared(child.socket(), ShareByIpc(part->data(), part->size()), InAMinute());
  AwaitGo(child.socket());
  {
    const Device device;
    const auto source = Filled(HostMemoryKind().Allocate(10'000), 3);
    EXPECT_TRUE(WriteBuffer(device, *WrapPointer(source->data(), 10'000), *part));
  }
  Go(child.socket());
  AwaitGo(child.socket());
  std::vector<std::byte> start(10);
  part->CopyOut(0, start);
  EXPECT_EQ(start, Pattern(10, 4)) << "the other process wrote this";
}

TEST_F(Sharing, LeavesRegistrationToTheOwnerByIpc) {
  Child child([](int socket) {
    fake_cuda::Configure("");
    const auto opened = Open(ReceiveShared(socket, InAMinute()));
    const Device device;
    Inject(RegistrationFault{.by_address = EFAULT});  // as nvidia_peermem refuses it
    try {
      opened->Register(device);
      ADD_FAILURE() << "the memory was registered";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("another process may have allocated it; only that process can register "
                            "it or export a dma-buf of it"));
    }
    Go(socket);
  });
  fake_cuda::Configure("");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  SendShared(child.socket(), ShareByIpc(memory.data(), 4096), InAMinute());
  AwaitGo(child.socket());
}

TEST_F(Sharing, UsesOneMappingIfOpenedTwiceByIpc) {
  Child child([](int socket) {
    fake_cuda::Configure("");
    const SharedMemory shared = ReceiveShared(socket, InAMinute());
    auto first = Open({shared.info});
    const auto second = Open({shared.info});
    EXPECT_EQ(first->data(), second->data());
    first.reset();
    EXPECT_EQ(Contents(*second), Pattern(100, 5));
    Go(socket);
  });
  fake_cuda::Configure("");
  const Gpu gpu;
  const GpuMemory memory(gpu, 4096);
  const auto part = Filled(WrapPointer(memory.data(), 100), 5);
  SendShared(child.socket(), ShareByIpc(part->data(), part->size()), InAMinute());
  AwaitGo(child.socket());
}

TEST_F(Sharing, RejectsARangeThatTheOwnerDoesNotHave) {
  Child child([](int socket) {
    fake_cuda::Configure("");
    const SharedMemoryInfo shared = ReceiveShared(socket, InAMinute()).info;
    const auto opens = [&](uint64_t offset, uint64_t bytes) -> std::string {
      SharedMemoryInfo forged = shared;
      forged.address = shared.address - shared.offset + offset;
      forged.allocation_bytes = uint64_t{1} << 40;
      forged.offset = offset;
      forged.bytes = bytes;
      try {
        Open({SharedMemoryInfo::FromBytes(forged.ToBytes())});
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    };
    const uint64_t whole = shared.allocation_bytes;
    EXPECT_THAT(opens(0, 1 << 30), HasSubstr("the driver opened " + std::to_string(whole) + " bytes"));
    EXPECT_THAT(opens(0, whole + 1), HasSubstr("the driver opened"));
    EXPECT_THAT(opens(whole, 1), HasSubstr("the driver opened"));
    EXPECT_EQ(opens(whole - 1, 1), "");
    Go(socket);
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "the child leaks";
  });
  fake_cuda::Configure("");
  const Gpu gpu;
  const GpuMemory memory(gpu, 65536);
  SendShared(child.socket(), ShareByIpc(memory.data() + 5000, 10'000), InAMinute());
  AwaitGo(child.socket());
}

TEST_F(Sharing, ReportsThatTheOwnerHasEnded) {
  SharedMemory shared;
  {
    Child child([](int socket) {
      fake_cuda::Configure("");
      const Gpu gpu;
      const GpuMemory memory(gpu, 4096);
      SendShared(socket, ShareByIpc(memory.data(), 4096), InAMinute());
      AwaitGo(socket);
    });
    shared = ReceiveShared(child.socket(), InAMinute());
    Go(child.socket());
  }
  fake_cuda::Configure("");
  try {
    Open(std::move(shared));
    FAIL() << "it was opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Check that the sharing process still runs"));
  }
}

TEST_F(Sharing, MapsCuMemCreateMemoryByHandle) {
  Child child([](int socket) {
    fake_cuda::Configure("");
    const auto opened = Open(ReceiveShared(socket, InAMinute()));
    EXPECT_EQ(Contents(*opened), Pattern(VmmMemory::kChunk, 6));
    const Device device;
    const auto source = Filled(CudaMemoryKind(Gpu()).Allocate(VmmMemory::kChunk), 7);
    EXPECT_TRUE(WriteBuffer(device, *source, *opened));
    Go(socket);
  });
  fake_cuda::Configure("");
  const Gpu gpu;
  const VmmMemory memory(2);
  const auto chunk = Filled(WrapPointer(memory.data() + VmmMemory::kChunk, VmmMemory::kChunk), 6);
  SendShared(child.socket(), ShareByHandle(chunk->data(), chunk->size()), InAMinute());
  AwaitGo(child.socket());
  EXPECT_EQ(Contents(*chunk), Pattern(VmmMemory::kChunk, 7));
}

}  // namespace
}  // namespace warpverbs::host
