#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "host/endpoint/faults.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::host {
namespace {

size_t ResidentBytes() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/// Repeats a step a thousand times and expects that no memory grows.
void ExpectNothingGrows(const std::function<void()>& step) {
  // A sanitizer keeps freed memory for a while. The count of operator new is exact in any case.
  const bool keeps =
      dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
  const size_t bound = size_t{keeps ? 512U : 32U} << 20;
  for (int i = 0; i < 10; ++i) step();
  const Holdings before;
  const size_t resident = ResidentBytes();
  for (int i = 0; i < 1000; ++i) step();
  const long blocks = HeldBlocks();
  EXPECT_LT(ResidentBytes(), resident + bound);
  before.ExpectStill(blocks);
}

TEST(Repetition, RegisterWithoutLeak) {
  const Device device;
  const HostPages pages(1 << 20);
  ExpectNothingGrows([&] { const MemoryRegion region(device, pages.data(), pages.size()); });
}

TEST(Repetition, ConnectAndResetWithoutLeak) {
  const Device device;
  Link link(device);
  ExpectNothingGrows([&] {
    link.Connect();
    Require(link.Write(1).ok(), "a write failed");
    link.a.Reset();
    link.b.Reset();
  });
}

TEST(Repetition, CreateEndpointsWithoutLeak) {
  const Device device;
  ExpectNothingGrows([&] {
    Endpoint a(device, {.depth = 16}), b(device, {.depth = 16});
    a.Connect(b.Info());
    b.Connect(a.Info());
  });
}

}  // namespace
}  // namespace warpverbs::host
