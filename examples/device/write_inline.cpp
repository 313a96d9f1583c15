// An inline write: the work queue entry contains the value, which needs no registered memory.
#include "common/example.hpp"

using namespace warpverbs;

/// Any trivially copyable type of up to 28 bytes.
struct Point {
  float x, y, z;
};

// Post() has copied the value when it returns, so the next round may change it.
template <class A>
WARPVERBS_DEVICE device::Status PutAll(const device::QueueView& view, const device::RemoteMemory& to,
                                       uint32_t points) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status;
  for (uint32_t i = 0; i < points && status.ok(); ++i) {
    const Point point{static_cast<float>(i), 0.5f, -1.0f};
    const device::RemoteMemory place{to.addr + i * sizeof(Point), to.rkey};
    status = queue.Post(device::WriteInline<Point>{place, point}, limit).status;
  }
  if (status.ok()) status = queue.Flush(limit);
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches inline writes: writes values from registers to the peer.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory<Point> to(device, 100);
    CheckOk(PutAll<arch::Cpu>(pair.here.View(), to.Remote(), 100), "the kernel");
    for (size_t i = 0; i < 100; ++i) {
      Check(to[i].x == static_cast<float>(i) && to[i].y == 0.5f && to[i].z == -1.0f, "every point arrived");
    }
    std::puts("100 points arrived that were never in registered memory.");
  });
}
