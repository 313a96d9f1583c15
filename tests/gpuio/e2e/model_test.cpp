#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "fake_cuda.hpp"
#include "gpuio/e2e/remote_mount.hpp"

/// Random I/O of many threads against a model.
namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr size_t kFileBytes = 1 << 20, kBufferBytes = 300'000;

/// Reads and writes a file of its own at random, and compares every byte.
void Work(RemoteMount& mount, int thread, std::chrono::steady_clock::time_point end) {
  std::mt19937 random(static_cast<unsigned>(thread));
  std::string model;
  const RingedBuffer buffer(mount.path(), kBufferBytes, thread % 2 == 0 ? thread / 2 % 2 : -1);
  const bool is_gpu = hf3fs_iov_is_gpu(&buffer.iov());
  auto* const memory = reinterpret_cast<char*>(is_gpu ? fake_cuda::Reach(buffer.iov().base, kBufferBytes)
                                                      : reinterpret_cast<std::byte*>(buffer.iov().base));
  const OpenedHere file(mount.File("file" + std::to_string(thread)), O_RDWR | O_CREAT);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  do {
    const size_t bytes = 1 + random() % kBufferBytes, at = random() % (kBufferBytes - bytes + 1);
    const size_t offset = random() % kFileBytes;
    if (random() % 2 == 0) {
      for (size_t i = 0; i < bytes; ++i) memory[at + i] = static_cast<char>(random());
      if (model.size() < offset + bytes) model.resize(offset + bytes);
      model.replace(offset, bytes, memory + at, bytes);
      ASSERT_EQ(buffer.Transfer(false, at, file.fd, offset, bytes), static_cast<int64_t>(bytes));
    } else {
      std::memset(memory, '#', kBufferBytes);
      const std::string expected = offset < model.size() ? model.substr(offset, bytes) : "";
      ASSERT_EQ(buffer.Transfer(true, at, file.fd, offset, bytes), static_cast<int64_t>(expected.size()));
      ASSERT_EQ(std::memcmp(memory + at, expected.data(), expected.size()), 0) << offset << " " << bytes;
      for (size_t i = at + expected.size(); i < kBufferBytes; ++i) ASSERT_EQ(memory[i], '#') << i;
    }
  } while (std::chrono::steady_clock::now() < end);
  hf3fs_dereg_fd(file.fd);
}

/// WARPVERBS_SOAK_SECONDS makes it longer.
TEST(Model, AgreesWithRandomIoOfManyThreads) {
  fake_cuda::Configure("gpus=2");
  const char* const soak = std::getenv("WARPVERBS_SOAK_SECONDS");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(soak == nullptr ? 1 : std::atoi(soak));
  RemoteMount mount;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 16; ++thread) threads.emplace_back([&, thread] { Work(mount, thread, end); });
  threads.clear();
  EXPECT_EQ(mount.Statistics().failures, 0u);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
