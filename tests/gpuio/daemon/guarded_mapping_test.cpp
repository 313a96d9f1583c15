#include "gpuio/daemon/guarded_mapping.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr size_t kBytes = 100'000;

std::unique_ptr<GuardedMapping> MapNewFile() {
  host::FileDescriptor file(memfd_create("guarded_mapping_test", MFD_CLOEXEC));
  if (ftruncate(file.get(), kBytes) != 0) return nullptr;
  int error = 0;
  return GuardedMapping::Map(std::move(file), kBytes, error);
}

TEST(GuardedMapping, MapsTheFile) {
  const auto mapping = MapNewFile();
  ASSERT_NE(mapping, nullptr);
  std::memset(mapping->data(), 7, kBytes);
  char byte = 0;
  EXPECT_EQ(pread(mapping->file().get(), &byte, 1, kBytes - 1), 1);
  EXPECT_EQ(byte, 7);
  EXPECT_FALSE(mapping->WasTruncated());
}

TEST(GuardedMapping, SurvivesItsFileBecomingShorter) {
  const auto mapping = MapNewFile(), other = MapNewFile();
  ASSERT_NE(mapping, nullptr);
  ASSERT_NE(other, nullptr);
  std::memset(mapping->data(), 7, kBytes);
  ASSERT_EQ(ftruncate(mapping->file().get(), 4096), 0);
  EXPECT_EQ(mapping->data()[4095], std::byte{7});
  EXPECT_EQ(mapping->data()[50'000], std::byte{0});
  std::memset(mapping->data(), 8, kBytes);
  EXPECT_EQ(mapping->data()[kBytes - 1], std::byte{8});
  EXPECT_TRUE(mapping->WasTruncated());
  EXPECT_FALSE(other->WasTruncated());
}

TEST(GuardedMapping, TakesOneMappingForAllThatIsMissing) {
  const auto mapping = MapNewFile();
  ASSERT_NE(mapping, nullptr);
  const auto begin = reinterpret_cast<uintptr_t>(mapping->data());
  const auto mappings = [begin] {
    size_t count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const uintptr_t at = std::stoull(line, nullptr, 16);
      if (at >= begin && at < begin + kBytes) ++count;
    }
    return count;
  };
  ASSERT_EQ(ftruncate(mapping->file().get(), 0), 0);
  for (size_t at = 4096; at < kBytes; at += 8192) EXPECT_EQ(mapping->data()[at], std::byte{0});
  EXPECT_EQ(mappings(), 2u);
}

TEST(GuardedMapping, LeavesOtherFaultsAlone) {
  EXPECT_EXIT(
      {
        const auto mapping = MapNewFile();
        const host::FileDescriptor file(memfd_create("other", MFD_CLOEXEC));
        if (ftruncate(file.get(), 4096) != 0) std::exit(0);
        auto* const memory =
            static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0));
        if (ftruncate(file.get(), 0) != 0) std::exit(0);
        std::exit(memory[0]);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST(GuardedMapping, RefusesAFileThatCannotBeMapped) {
  int error = 0;
  EXPECT_EQ(GuardedMapping::Map(host::FileDescriptor(), 4096, error), nullptr);
  EXPECT_NE(error, 0);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
