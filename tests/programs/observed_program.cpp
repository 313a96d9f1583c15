// Posts 50 traced writes to itself, and saves what was observed in the file that the command line names.
#include <cstdio>
#include <exception>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

int main(int argc, char** argv) try {
  using namespace warpverbs;
  using arch::Cpu;
  if (argc != 2) return 2;
  const host::Device device;
  host::Endpoint endpoint(device, {.trace_slots = 64}), peer(device);
  endpoint.Connect(peer.Info());
  peer.Connect(endpoint.Info());
  alignas(8) static uint64_t words[2] = {1, 0};
  const host::MemoryRegion region(device, words, sizeof words, {.remote_write = true});
  {
    device::SendQueue<Cpu, device::Exclusive, device::Thread, device::Traced> queue(endpoint.View());
    device::RemoteMemory remote = region.View().Remote();
    remote.addr += sizeof words[0];
    device::LocalMemory local = region.View().Local();
    local.bytes = sizeof words[0];
    for (int i = 0; i < 50; ++i) {
      const device::WaitLimit limit{.deadline_ns = Cpu::NowNs() + 60'000'000'000};
      const device::Posted posted = queue.Post(device::Write(remote, local), limit);
      if (!posted.status.ok() || !queue.Wait(posted.ticket, limit).ok()) return 1;
    }
  }
  const host::Endpoint* const endpoints[] = {&endpoint, &peer};
  host::SaveObservations(argv[1], endpoints);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
