#include "warpverbs/host/hip.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>

#include "fake_hip.hpp"
#include "host/buffer/buffer_traffic.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/pointer_info.hpp"
#include "warpverbs/host/shared_memory.hpp"

// Functions of the fake, as a HIP program calls them.
extern "C" {
int hipSetDevice(int device);
int hipPeekAtLastError();
int hipGetLastError();
}

/// Memory of an AMD GPU, with fake runtimes.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

Deadline Soon() { return DeadlineIn(std::chrono::seconds(10)); }

class HipTest : public testing::Test {
 protected:
  HipTest() {
    fake_hip::Configure({});
    static_cast<void>(hipGetLastError());  // error of the previous test
  }
  ~HipTest() override {
    EXPECT_EQ(fake_hip::HeldNow(), 0) << "resources leaked";
    EXPECT_EQ(fake_hip::EventsNow(), 0) << "an event leaked";
    EXPECT_EQ(fake_hip::CurrentDevice(), 0) << "the caller's device";
  }

  Device device_;
};

TEST_F(HipTest, HasANameAndAnAddress) {
  fake_hip::Configure({.devices = 2});
  EXPECT_EQ(HipGpu::Count(), 2);
  const HipGpu gpu(1);
  EXPECT_EQ(gpu.name(), "hip:1");
  EXPECT_EQ(gpu.ordinal(), 1);
  EXPECT_EQ(gpu.pci_address(), "0000:c2:00.0");
  EXPECT_EQ(HipMemoryKind(gpu).name(), "memory of hip:1");
  EXPECT_EQ(HipMemoryKind(gpu).Allocate(1)->name(), "memory of hip:1");
}

TEST_F(HipTest, RejectsMissingGpus) {
  EXPECT_EQ(WhyRefused([] { HipGpu gpu(1); }),
            "Cannot use hip:1: this process sees 1 AMD GPU(s). Pass an index from 0, and check "
            "HIP_VISIBLE_DEVICES and rocm-smi.");
  EXPECT_THAT(WhyRefused([] { HipGpu gpu(-1); }), HasSubstr("Cannot use hip:-1: "));
  fake_hip::Configure({.devices = 0});
  EXPECT_EQ(HipGpu::Count(), 0);
}

TEST_F(HipTest, IsReachedByTheNicAtDeviceAddresses) {
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(1);
  const MemoryRegion region = buffer->Register(device_);
  EXPECT_EQ(region.View().addr, reinterpret_cast<uint64_t>(buffer->data()));
  EXPECT_EQ(region.method(), RegistrationMethod::kDmaBuf);
  EXPECT_LT(buffer->Export().start(), region.View().addr) << "the file begins before the allocation";
}

TEST_F(HipTest, DescribesPointersByTheirAllocation) {
  fake_hip::Configure({.devices = 2});
  const auto buffer = HipMemoryKind(HipGpu(1)).Allocate(65536);
  const PointerInfo info = DescribePointer(buffer->data() + 65535);
  EXPECT_EQ(info.kind, PointerKind::kHip);
  EXPECT_EQ(info.ordinal, 1);
  EXPECT_EQ(info.base, reinterpret_cast<uint64_t>(buffer->data()));
  EXPECT_EQ(info.bytes, 65536);
  EXPECT_NE(info.buffer_id, 0);
  EXPECT_FALSE(info.on_gpu()) << "no driver of CUDA knows it";
  EXPECT_EQ(DescribeRange(buffer->data(), 65536), std::vector{info});
  const auto other = HipMemoryKind(HipGpu(1)).Allocate(1);
  EXPECT_NE(DescribePointer(other->data()).buffer_id, info.buffer_id);
}

TEST_F(HipTest, LeavesNoErrorAfterAHostPointer) {
  const HipGpu gpu;
  const int word = 0;
  EXPECT_EQ(DescribePointer(&word), PointerInfo{.kind = PointerKind::kHost});
  EXPECT_EQ(hipPeekAtLastError(), 0) << "the program must see only its own errors";
}

TEST_F(HipTest, KeepsTheProgramsError) {
  EXPECT_NE(hipSetDevice(99), 0);
  ASSERT_NE(hipPeekAtLastError(), 0);
  const int word = 0;
  EXPECT_EQ(DescribePointer(&word).kind, PointerKind::kHost);
  EXPECT_NE(hipGetLastError(), 0);
}

TEST_F(HipTest, ReportsTheRuntimesKindOfMemory) {
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(1);
  const std::pair<int, PointerKind> kinds[] = {{0, PointerKind::kHost},
                                               {1, PointerKind::kPinned},
                                               {2, PointerKind::kHip},
                                               {3, PointerKind::kManaged},
                                               {10, PointerKind::kHost}};
  for (const auto& [type, kind] : kinds) {
    fake_hip::Configure({.memory_type = type});
    EXPECT_EQ(DescribePointer(buffer->data()).kind, kind) << type;
  }
  EXPECT_STREQ(ToString(PointerKind::kHip), "AMD GPU memory");
  fake_hip::Configure({.memory_type = 3});
  EXPECT_THAT(WhyRefused([&] { MemoryRegion(device_, buffer->data(), 64); }),
              HasSubstr("it is managed memory, which moves between host and GPU"));
}

TEST_F(HipTest, WrapsPinnedMemoryWithoutCuda) {
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(1);
  fake_hip::Configure({.memory_type = 1});
  const auto pinned = WrapPointer(buffer->data(), 64);
  EXPECT_EQ(pinned->name(), "pinned host memory");
  pinned->Flush(FlushDirection::kGpuToNic, Soon());
  fake_hip::Configure({.memory_type = 1, .fail_call = 2});  // call 1 makes the GPU current
  pinned->Flush(FlushDirection::kNicToGpu, Soon());
  EXPECT_TRUE(fake_hip::FailurePending()) << "the runtime is not called";
  EXPECT_THAT(WhyRefused([&] { pinned->Flush(FlushDirection::kGpuToNic, Soon()); }),
              HasSubstr("Cannot flush 64 bytes of "));
}

TEST_F(HipTest, TreatsPointersAsUnallocatedIfTheRuntimeFails) {
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(1);
  fake_hip::Configure({.fail_call = 1});
  EXPECT_EQ(DescribePointer(buffer->data()), PointerInfo{});
  fake_hip::Configure({.fail_call = 2});
  const PointerInfo boundless = DescribePointer(buffer->data());
  EXPECT_EQ(boundless.kind, PointerKind::kHip);
  EXPECT_EQ(boundless.bytes, 0);
}

TEST_F(HipTest, RegistersAndCopiesMemoryOfOtherCode) {
  fake_hip::Configure({.devices = 2});
  const auto owner = HipMemoryKind(HipGpu(1)).Allocate(65536);
  const auto part = WrapPointer(owner->data() + 5000, 10'000);
  EXPECT_EQ(part->name(), "memory of hip:1");
  const MemoryRegion region(device_, owner->data() + 5000, 10'000);
  EXPECT_EQ(region.method(), RegistrationMethod::kDmaBuf);
  EXPECT_EQ(region.View().addr, reinterpret_cast<uint64_t>(owner->data() + 5000));
  const auto source = HostMemoryKind().Allocate(10'000);
  source->CopyIn(0, Pattern(10'000, 1));
  ASSERT_TRUE(WriteBuffer(device_, *WrapPointer(source->data(), 10'000), *part));
  EXPECT_EQ(Contents(*part), Pattern(10'000, 1));
  EXPECT_EQ(fake_hip::Reach(owner->data())[4999], std::byte{});
  EXPECT_EQ(fake_hip::Reach(owner->data())[15'000], std::byte{});
  fake_hip::Configure({.devices = 2, .exports = false});
  EXPECT_THAT(WhyRefused([&] { MemoryRegion(device_, owner->data(), 64); }),
              testing::MatchesRegex("Cannot register 64 bytes at 0x[0-9a-f]+ \\(AMD GPU memory, hip:1\\) on "
                                    "mlx5_0: by dma-buf: HSA_STATUS_ERROR: .*; by peer memory: .*"));
}

TEST_F(HipTest, CarriesDataOnAnyGpu) {
  fake_hip::Configure({.devices = 2});
  for (const int ordinal : {0, 1}) {
    const auto buffer = HipMemoryKind(HipGpu(ordinal)).Allocate(60'000);
    const auto source = HostMemoryKind().Allocate(65536), target = HostMemoryKind().Allocate(65536);
    ASSERT_EQ(buffer->size(), 65536) << "whole pages";
    const std::vector<std::byte> pattern = Pattern(65536, 1);
    source->CopyIn(0, pattern);
    ASSERT_TRUE(WriteBuffer(device_, *source, *buffer));
    EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), fake_hip::Reach(buffer->data())));
    EXPECT_EQ(Contents(*buffer), pattern);
    ASSERT_TRUE(WriteBuffer(device_, *buffer, *target));
    EXPECT_EQ(Contents(*target), pattern);
  }
}

TEST_F(HipTest, ZeroesAndCopiesMemory) {
  fake_hip::Configure({.devices = 2});
  const auto buffer = HipMemoryKind(HipGpu(1)).Allocate(65536);
  EXPECT_EQ(Contents(*buffer), std::vector<std::byte>(65536));
  buffer->CopyIn(100, Pattern(200, 3));
  std::vector<std::byte> copied(200);
  buffer->CopyOut(100, copied);
  EXPECT_EQ(copied, Pattern(200, 3));
  EXPECT_EQ(fake_hip::Reach(buffer->data())[99], std::byte{});
  EXPECT_THROW(buffer->CopyIn(buffer->size(), copied), std::out_of_range);
}

TEST_F(HipTest, KeepsTheCallersCurrentDevice) {
  fake_hip::Configure({.devices = 3});
  fake_hip::SetCurrentDevice(2);
  {
    const auto buffer = HipMemoryKind(HipGpu(1)).Allocate(1);
    EXPECT_EQ(fake_hip::CurrentDevice(), 2);
    EXPECT_EQ(Contents(*buffer).size(), 65536);
    EXPECT_EQ(fake_hip::CurrentDevice(), 2);
    buffer->Register(device_);
  }
  EXPECT_EQ(fake_hip::CurrentDevice(), 2);
  fake_hip::SetCurrentDevice(0);
}

TEST_F(HipTest, FlushesToTheNicByWaitingForKernels) {
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(64);
  fake_hip::Configure({.fail_call = 2});  // call 1 makes the GPU current
  EXPECT_THAT(WhyRefused([&] { buffer->Flush(FlushDirection::kGpuToNic, Soon()); }),
              HasSubstr("Cannot flush 65536 bytes of "));
  buffer->Flush(FlushDirection::kGpuToNic, Soon());
  fake_hip::Configure({.fail_call = 1});
  buffer->Flush(FlushDirection::kNicToGpu, Soon());
  EXPECT_TRUE(fake_hip::FailurePending()) << "kernels see what NICs wrote without a call";
}

TEST_F(HipTest, FlushesWithinADeadline) {
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(64);
  fake_hip::Configure({.busy_looks = 3});
  int before = fake_hip::EventLooks();
  buffer->Flush(FlushDirection::kGpuToNic, Soon());
  EXPECT_EQ(fake_hip::EventLooks(), before + 4) << "until the kernels are done";
  EXPECT_EQ(hipPeekAtLastError(), 0) << "the program's next check must see no error";

  fake_hip::Configure({.busy_looks = -1});
  EXPECT_THAT(
      WhyRefused(
          [&] { buffer->Flush(FlushDirection::kGpuToNic, DeadlineIn(std::chrono::milliseconds(50))); }),
      testing::MatchesRegex("Cannot flush 65536 bytes of memory of hip:0: its work did not finish within "
                            "0\\.0[0-9]+ s\\. Give the kernels their own deadline, or pass a longer one\\."));
  EXPECT_EQ(hipPeekAtLastError(), 0);
  before = fake_hip::EventLooks();
  EXPECT_THAT(WhyRefused([&] { buffer->Flush(FlushDirection::kGpuToNic, {}); }), HasSubstr("within 0 s"));
  EXPECT_EQ(fake_hip::EventLooks(), before + 1) << "a passed deadline does not wait";
}

TEST_F(HipTest, CachesMemoryAsConfigured) {
  const HipGpu gpu;
  HipMemoryKind(gpu).Allocate(1);
  EXPECT_EQ(fake_hip::LastFlags(), 3) << "hipDeviceMallocUncached";
  HipMemoryKind(gpu, HipCaching::kFineGrained).Allocate(1);
  EXPECT_EQ(fake_hip::LastFlags(), 1) << "hipDeviceMallocFinegrained";
  HipMemoryKind(gpu, HipCaching::kCached).Allocate(1);
  EXPECT_EQ(fake_hip::LastFlags(), 0) << "hipDeviceMallocDefault";
}

TEST_F(HipTest, SharesMemoryByDmaBuf) {
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(65536);
  const auto opened = Open(ShareByDmaBuf(*buffer));
  EXPECT_EQ(opened->data(), buffer->data());
  const auto source = HostMemoryKind().Allocate(65536);
  source->CopyIn(0, Pattern(65536, 2));
  EXPECT_TRUE(WriteBuffer(device_, *source, *opened));
  EXPECT_EQ(Contents(*buffer), Pattern(65536, 2));
}

TEST_F(HipTest, RejectsEmptyHugeAndUnexportedMemory) {
  const HipMemoryKind kind{HipGpu()};
  EXPECT_THAT(WhyRefused([&] { kind.Allocate(0); }), HasSubstr("an allocation cannot be empty"));
  EXPECT_THAT(
      WhyRefused([&] { kind.Allocate(~size_t{0}); }),
      HasSubstr(
          "Cannot allocate 18446744073709551615 bytes of memory of hip:0: no GPU has that much memory."));
  EXPECT_EQ(
      WhyRefused([&] { kind.Allocate(size_t{1} << 40); }),
      "Cannot allocate 1099511627776 bytes of memory of hip:0: out of memory (hipErrorOutOfMemory). Free "
      "some of the GPU's memory (rocm-smi shows which processes hold it).");
  fake_hip::Configure({.exports = false});
  EXPECT_THAT(WhyRefused([&] { kind.Allocate(1)->Register(device_); }),
              testing::MatchesRegex("Cannot register 65536 bytes at 0x[0-9a-f]+ \\(AMD GPU memory, "
                                    "hip:0\\) on mlx5_0: by dma-buf: "
                                    "HSA_STATUS_ERROR: A generic error has occurred; by peer memory: Bad "
                                    "address \\(EFAULT\\)\\. Use Linux 5\\.12 or "
                                    "later with CONFIG_PCI_P2PDMA and "
                                    "CONFIG_DMABUF_MOVE_NOTIFY, whose amdgpu exports dma-bufs, or ROCm's "
                                    "amdgpu-dkms with MLNX_OFED, which "
                                    "have peer-direct\\."));
}

TEST_F(HipTest, UsesPeerDirectWithoutExports) {
  fake_hip::Configure({.exports = false, .peer_direct = true});
  const auto buffer = HipMemoryKind(HipGpu()).Allocate(65536);
  const auto source = HostMemoryKind().Allocate(65536);
  source->CopyIn(0, Pattern(65536, 4));
  EXPECT_EQ(buffer->Register(device_).method(), RegistrationMethod::kPeerMemory);
  EXPECT_EQ(MemoryRegion(device_, buffer->data() + 100, 64).method(), RegistrationMethod::kPeerMemory);
  ASSERT_TRUE(WriteBuffer(device_, *source, *buffer));
  EXPECT_EQ(Contents(*buffer), Pattern(65536, 4));
}

TEST_F(HipTest, ReportsEveryFailedCallWithoutLeaks) {
  fake_hip::Configure({.devices = 2});
  int calls = 0;
  for (bool all_failed = false; !all_failed; ++calls) {
    fake_hip::Configure({.devices = 2, .fail_call = calls + 1});
    const std::string answer = WhyRefused([&] {
      const auto buffer = HipMemoryKind(HipGpu(1)).Allocate(64);
      buffer->CopyIn(0, Pattern(64, 1));
      buffer->Register(device_);
      WrapPointer(buffer->data(), 64)->CopyIn(0, Pattern(64, 1));
      const MemoryRegion region(device_, buffer->data(), 64);
    });
    all_failed = fake_hip::FailurePending();
    if (answer != kAccepted) {
      EXPECT_THAT(answer, testing::ContainsRegex("^Cannot .*: .*\\. .*\\.$"));
    }
    EXPECT_EQ(fake_hip::HeldNow(), 0) << "after a failure of call " << calls + 1;
    fake_hip::SetCurrentDevice(0);  // in case restoring it failed
  }
  EXPECT_GT(calls, 8);
}

}  // namespace
}  // namespace warpverbs::host
