#include "warpverbs/host/gaudi.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>

#include "fake_gaudi.hpp"
#include "host/buffer/buffer_traffic.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/buffer_pool.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/shared_memory.hpp"

/// Memory of a Gaudi, with a fake user library.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class GaudiTest : public testing::Test {
 protected:
  GaudiTest() { fake_gaudi::Configure({}); }
  ~GaudiTest() override { EXPECT_EQ(fake_gaudi::HeldNow(), fake_gaudi::Held{}) << "resources leaked"; }

  /// Checks that the NIC writes to the memory, and from it to host memory.
  void ExpectGaudiTraffic() const {
    const auto buffer = GaudiMemoryKind(Gaudi()).Allocate(60'000);
    const auto source = HostMemoryKind().Allocate(65536), target = HostMemoryKind().Allocate(65536);
    ASSERT_EQ(buffer->size(), 65536) << "whole pages";
    source->CopyIn(0, Pattern(65536, 1));
    ASSERT_TRUE(WriteBuffer(device_, *source, *buffer));
    const std::vector<std::byte> pattern = Pattern(65536, 1);
    EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), fake_gaudi::Reach(buffer->data())));
    ASSERT_TRUE(WriteBuffer(device_, *buffer, *target));
    EXPECT_EQ(Contents(*target), pattern);
  }

  Device device_;
};

TEST_F(GaudiTest, HasANameAndAnAddress) {
  fake_gaudi::Configure({.devices = 2});
  const Gaudi first, second;
  EXPECT_EQ(first.name(), "gaudi:0000:33:00.0");
  EXPECT_EQ(second.pci_address(), "0000:34:00.0");
  EXPECT_EQ(GaudiMemoryKind(second).name(), "memory of gaudi:0000:34:00.0");
}

TEST_F(GaudiTest, RejectsMissingAndBusyDevices) {
  EXPECT_EQ(
      WhyRefused([] { Gaudi("0000:99:00.0"); }),
      "Cannot open the Gaudi at 0000:99:00.0: No such device (ENODEV). Check that it is present (hl-smi) "
      "and that no "
      "other process uses it.");
  const Gaudi user;
  EXPECT_THAT(WhyRefused([] { Gaudi gaudi; }),
              HasSubstr("Cannot open a Gaudi: Device or resource busy (EBUSY). Check"));
}

TEST_F(GaudiTest, IsReachedByTheNicAtDeviceAddresses) {
  const auto buffer = GaudiMemoryKind(Gaudi("0000:33:00.0")).Allocate(1);
  EXPECT_GE(reinterpret_cast<uint64_t>(buffer->data()), 0x1001001800000000);
  EXPECT_EQ(buffer->Register(device_).View().addr, reinterpret_cast<uint64_t>(buffer->data()));
  EXPECT_EQ(buffer->Register(device_).method(), RegistrationMethod::kDmaBuf);
}

TEST_F(GaudiTest, CarriesDataOnBothGenerations) {
  ExpectGaudiTraffic();
  fake_gaudi::Configure({.mapped_export = false});
  ExpectGaudiTraffic();
}

TEST_F(GaudiTest, SharesMemoryByDmaBuf) {
  const auto buffer = GaudiMemoryKind(Gaudi()).Allocate(65536);
  const auto opened = Open(ShareByDmaBuf(*buffer));
  EXPECT_EQ(opened->data(), buffer->data());
  const auto source = HostMemoryKind().Allocate(65536);
  source->CopyIn(0, Pattern(65536, 2));
  EXPECT_TRUE(WriteBuffer(device_, *source, *opened));
  EXPECT_EQ(fake_gaudi::Reach(buffer->data())[7], Pattern(65536, 2)[7]);
}

TEST_F(GaudiTest, RejectsCopiesByTheProcessor) {
  const auto buffer = GaudiMemoryKind(Gaudi()).Allocate(64);
  std::byte byte{};
  EXPECT_EQ(WhyRefused([&] {
              buffer->CopyOut(3, {&byte, 1});
            }),
            "Cannot read 1 bytes of memory of gaudi:0000:33:00.0: the processor cannot reach it, and "
            "hl-thunk copies "
            "nothing. Copy with Gaudi's framework, or by RDMA from and to host memory.");
  EXPECT_THAT(WhyRefused([&] { buffer->CopyIn(3, {&byte, 1}); }), HasSubstr("Cannot write 1 bytes"));
  EXPECT_THROW(buffer->CopyIn(buffer->size(), {&byte, 1}), std::out_of_range);
}

TEST_F(GaudiTest, LeavesFlushesToTheFramework) {
  const auto buffer = GaudiMemoryKind(Gaudi()).Allocate(64);
  try {
    buffer->Flush(FlushDirection::kGpuToNic, {});
    FAIL() << "hl-thunk has no such call";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_number(), EOPNOTSUPP);
    EXPECT_STREQ(
        error.what(),
        "Cannot flush memory of gaudi:0000:33:00.0: no supported driver flushes this kind of memory. "
        "Wait for the work in the framework that allocated it.");
  }
}

TEST_F(GaudiTest, PoolsMemory) {
  const Device* const devices[] = {&device_};
  std::optional<BufferPool> pool(std::in_place, GaudiMemoryKind(Gaudi()), devices,
                                 BufferPoolConfig{9000, 10, {.remote_write = true}});
  EXPECT_EQ(fake_gaudi::HeldNow().allocations, 1);
  const BufferPool::Lease one = pool->Allocate(), other = pool->Allocate();
  pool.reset();
  const auto source = HostMemoryKind().Allocate(9000);
  source->CopyIn(0, Pattern(9000, 3));
  const MemoryRegion from = source->Register(device_);
  EXPECT_TRUE(WriteView(device_, from.View().First(9000), other.View()));
  const std::vector<std::byte> pattern = Pattern(9000, 3);
  EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), fake_gaudi::Reach(other.data())));
  EXPECT_NE(*fake_gaudi::Reach(one.data() + 1), pattern[1]) << "another buffer";
}

TEST_F(GaudiTest, RejectsEmptyAndHugeAllocations) {
  const GaudiMemoryKind kind{Gaudi()};
  EXPECT_THAT(WhyRefused([&] { kind.Allocate(0); }), HasSubstr("an allocation cannot be empty"));
  EXPECT_THAT(WhyRefused([&] { kind.Allocate(~size_t{0}); }), HasSubstr("no Gaudi has that much memory"));
  EXPECT_THAT(
      WhyRefused([&] { kind.Allocate(size_t{1} << 40); }),
      HasSubstr(
          "Cannot allocate 1099511627776 bytes of memory of gaudi:0000:33:00.0: the driver returned none"));
}

TEST_F(GaudiTest, ReportsEveryFailedCallWithoutLeaks) {
  int calls = 0;
  for (bool all_failed = false; !all_failed; ++calls) {
    fake_gaudi::Configure({.fail_call = calls + 1});
    const std::string answer = WhyRefused([&] { GaudiMemoryKind(Gaudi()).Allocate(64)->Register(device_); });
    all_failed = fake_gaudi::FailurePending();
    if (answer != kAccepted) {
      EXPECT_THAT(answer, testing::ContainsRegex("^Cannot .*: .*\\. .*\\.$"));
    }
    EXPECT_EQ(fake_gaudi::HeldNow(), fake_gaudi::Held{}) << "after a failure of call " << calls + 1;
  }
  EXPECT_GT(calls, 5);
}

}  // namespace
}  // namespace warpverbs::host
