#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "warpverbs/transport/event_loop.hpp"

/// Helpers of all tests of storage: folders, waiting, the loop's thread.
namespace warpverbs::inline v0_2::gpuio {

/// Deadline of everything, for busy machines too.
inline constexpr std::chrono::seconds kTestTimeout{90};

/// A folder that removes itself.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "gpuio.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create a folder");
    path_ = std::filesystem::canonical(name);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

template <class T>
T GetInTime(std::future<T> future, const char* what = "an operation") {
  if (future.wait_for(kTestTimeout) != std::future_status::ready)
    throw std::runtime_error(std::string(what) + " took too long");
  return future.get();
}

/// Bytes that depend on the place and the seed.
inline std::vector<uint8_t> Pattern(size_t bytes, uint64_t seed) {
  std::vector<uint8_t> pattern(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (uint8_t& byte : pattern) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<uint8_t>(state >> 56);
  }
  return pattern;
}

/// Runs a function on a loop's thread, and waits for it.
template <class Function>
auto OnLoop(transport::EventLoop& loop, Function function) {
  std::packaged_task<decltype(function())()> task(std::move(function));
  auto result = task.get_future();
  asio::post(loop.context(), [task = std::move(task)]() mutable { task(); });
  return GetInTime(std::move(result), "the loop");
}

/// Waits until a condition holds.
template <class Condition>
testing::AssertionResult Eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return testing::AssertionFailure() << "not in time";
    usleep(1000);
  }
  return testing::AssertionSuccess();
}

}  // namespace warpverbs::inline v0_2::gpuio
