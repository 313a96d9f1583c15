#include "gpuio/api/gpu_handle.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace warpverbs::inline v0_2::gpuio {
namespace {

host::SharedMemoryInfo Info() {
  host::SharedMemoryInfo info{
      .bytes = 0x123456789a, .offset = 0x1a987654321, .allocation_bytes = 0x1ffffffffff};
  std::strcpy(info.pci_address.data(), "a1b2:C3:1F.0");
  for (size_t i = 0; i < info.handle.size(); ++i) info.handle[i] = static_cast<uint8_t>(i * 7);
  return info;
}

TEST(GpuHandle, CarriesTheRangeTheGpuAndTheHandle) {
  const auto handle = ToHandle(Info());
  ASSERT_TRUE(handle.has_value());
  const auto read = FromHandle(*handle);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->bytes, Info().bytes);
  EXPECT_EQ(read->offset, Info().offset);
  EXPECT_EQ(read->handle, Info().handle);
  EXPECT_STREQ(read->pci_address.data(), "a1b2:c3:1f.0");
  EXPECT_EQ(read->kind, host::ShareKind::kCudaIpc);
  EXPECT_NO_THROW(read->Check());
}

TEST(GpuHandle, RefusesAnyFlippedBit) {
  const auto handle = ToHandle(Info());
  ASSERT_TRUE(handle.has_value());
  for (size_t bit = 0; bit < 8 * sizeof *handle; ++bit) {
    hf3fs_gpu_ipc_handle_t changed = *handle;
    changed.data[bit / 8] = static_cast<uint8_t>(changed.data[bit / 8] ^ (1U << (bit % 8)));
    EXPECT_EQ(FromHandle(changed), std::nullopt) << bit;
    for (size_t other = 0; other < bit; other += 13) {
      hf3fs_gpu_ipc_handle_t twice = changed;
      twice.data[other / 8] = static_cast<uint8_t>(twice.data[other / 8] ^ (1U << (other % 8)));
      EXPECT_EQ(FromHandle(twice), std::nullopt) << bit << " " << other;
    }
  }
}

TEST(GpuHandle, RefusesWhatItHasNoRoomFor) {
  host::SharedMemoryInfo info = Info();
  info.bytes = uint64_t{1} << 41;
  EXPECT_EQ(ToHandle(info), std::nullopt);
  info = Info();
  info.offset = uint64_t{1} << 41;
  EXPECT_EQ(ToHandle(info), std::nullopt);
  for (const char* const address :
       {"", "0000:41:00", "0000:41:00.0x", "0000:41:20.0", "0000:41:00.1", "gpu"}) {
    info = Info();
    info.pci_address = {};
    std::strcpy(info.pci_address.data(), address);
    EXPECT_EQ(ToHandle(info), std::nullopt) << address;
  }
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
