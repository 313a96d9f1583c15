#include "warpverbs/host/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>
#include <type_traits>
#include <utility>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

TEST(MemoryRegion, CoversTheGivenMemory) {
  const Device device;
  std::array<uint8_t, 4096> memory;
  const MemoryRegion region(device, memory.data(), memory.size(), {.remote_write = true});
  const MemoryView view = region.View();
  EXPECT_EQ(view.addr, reinterpret_cast<uint64_t>(memory.data()));
  EXPECT_EQ(view.bytes, memory.size());
}

TEST(MemoryRegion, HasUniqueKeys) {
  const Device device;
  std::array<uint8_t, 4096> memory;
  const MemoryRegion one(device, memory.data(), 64);
  const MemoryRegion other(device, memory.data(), 64);
  EXPECT_NE(one.View().lkey, other.View().lkey);
}

TEST(MemoryRegion, IsMovable) {
  static_assert(!std::is_copy_constructible_v<MemoryRegion> && !std::is_copy_assignable_v<MemoryRegion>);
  const Device device;
  std::array<uint8_t, 4096> memory;
  MemoryRegion one(device, memory.data(), 64), other(device, memory.data(), 128);
  const uint32_t key = one.View().lkey;
  other = std::move(one);
  EXPECT_EQ(other.View().lkey, key);
  EXPECT_EQ(other.View().bytes, 64);
  one = MemoryRegion(device, memory.data(), 32);  // a moved-from region may be assigned
  EXPECT_NE(one.View().lkey, key);
  EXPECT_EQ(one.View().bytes, 32);
}

TEST(MemoryRegion, AcceptsEveryCombinationOfRights) {
  const Device device;
  std::array<uint8_t, 64> memory;
  for (int rights = 0; rights < 16; ++rights) {
    const MemoryRegion region(device, memory.data(), memory.size(),
                              {.local_write = (rights & 1) != 0,
                               .remote_read = (rights & 2) != 0,
                               .remote_write = (rights & 4) != 0,
                               .remote_atomic = (rights & 8) != 0});
    EXPECT_EQ(region.View().bytes, memory.size()) << rights;
  }
}

TEST(MemoryRegion, AcceptsRelaxedOrderingByAddressAndDmaBuf) {
  const Device device;
  const Access relaxed{.remote_write = true, .relaxed_ordering = true};
  HostPages pages(4096);
  const MemoryRegion region(device, pages.data(), pages.size(), relaxed);
  EXPECT_TRUE(region.View().access.relaxed_ordering);
  EXPECT_TRUE(region.View().access.remote_write);

  FileDescriptor file(memfd_create("memory", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  constexpr uint64_t kStart = 0x7000'0000'0000;
  const DmaBuf buffer(std::move(file), kStart, 4096);
  EXPECT_TRUE(MemoryRegion(device, buffer, reinterpret_cast<void*>(kStart), 4096, relaxed)
                  .View()
                  .access.relaxed_ordering);
}

TEST(MemoryRegion, RejectsAtomicsWithRelaxedOrdering) {
  const Device device;
  HostPages pages(64);
  try {
    MemoryRegion region(device, pages.data(), 64, {.remote_atomic = true, .relaxed_ordering = true});
    FAIL() << "a signal may overtake its data";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(" on " + device.name() +
                                                 ": it asks for both atomics, which need ordered writes, and "
                                                 "relaxed ordering. Register one region for each."));
  }
}

TEST(MemoryRegion, NamesMemoryThatCannotBeRegistered) {
  const Device device;
  try {
    MemoryRegion region(device, reinterpret_cast<void*>(0x1000), 64);  // an unmapped address
    FAIL() << "registered memory that does not exist";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("Cannot register 64 bytes at 0x1000 (host memory) on " + device.name()));
  }
}

TEST(HostPages, AreZeroedAndAligned) {
  const HostPages pages(5000);
  EXPECT_EQ(pages.size() % 4096, 0);
  EXPECT_GE(pages.size(), 5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pages.data()) % 4096, 0);
  for (size_t i = 0; i < pages.size(); ++i) ASSERT_EQ(pages.data()[i], std::byte{0});
}

TEST(HostPages, RejectZeroBytes) {
  try {
    HostPages pages(0);
    FAIL() << "allocated nothing";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot allocate 0 bytes of host memory: an allocation cannot be empty. Ask for 1 byte or more.");
  }
}

}  // namespace
}  // namespace warpverbs::host
