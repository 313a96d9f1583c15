#include "machine/transfer.hpp"

#include <cstddef>
#include <cstring>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_rung.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu_memory.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/status_text.hpp"
#include "warpverbs/host/uar.hpp"

namespace warpverbs::tools {
namespace {

using arch::Cpu;

constexpr size_t kBytes = 65536;
constexpr uint64_t kPatienceNs = 5'000'000'000;

/// Posts a write and waits until it is done or the deadline has passed.
device::Status Write(const host::Endpoint& endpoint, const host::MemoryView& to,
                     const host::MemoryView& from) {
  device::SendQueue<Cpu, device::Exclusive> queue(endpoint.View());
  const device::Limit limit{.deadline_ns = Cpu::NowNs() + kPatienceNs};
  const device::RemoteMemory remote{to.addr, mlx5::ToBe32(to.rkey)};
  const device::LocalMemory local{from.addr, from.bytes, mlx5::ToBe32(from.lkey)};
  const device::Posted posted = queue.Post(device::Write(remote, local), limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  queue.Save();
  return status;
}

[[noreturn]] void Fail(const std::string& nic, const std::string& reason) {
  throw host::Error(
      "write from " + nic, "to itself", reason,
      "Look at the port's error counters (`rdma statistic`) and into the kernel log (dmesg) for mlx5");
}

}  // namespace

std::string TransferOnPort(const std::string& nic, uint8_t port) {
  const host::Device device(nic);
  host::Endpoint here(device, {.port = port}), there(device, {.port = port});
  here.Connect(there.Info());
  there.Connect(here.Info());
  host::HostPages source(kBytes), target(kBytes);
  for (size_t i = 0; i < kBytes; ++i) source.data()[i] = static_cast<std::byte>(i * 7 + i / 256);
  const host::MemoryRegion from(device, source.data(), kBytes);
  const host::MemoryRegion to(device, target.data(), kBytes, {.remote_write = true});
  const device::Status status = Write(here, to.View(), from.View());
  if (!status.ok()) {
    const auto error = here.LastError();
    Fail(nic, error ? error->What() : host::Describe(status));
  }
  if (std::memcmp(source.data(), target.data(), kBytes) != 0) Fail(nic, "the data that arrived are others");
  return std::to_string(kBytes) + " bytes written and verified";
}

std::string MapDoorbell(const std::string& nic, int gpu, bool& mapped) {
  const host::Device device(nic);
  const host::Gpu poster(gpu);
  const host::Uar uar(device.context());
  const host::DoorbellChoice choice =
      host::ChooseDoorbell(host::DoorbellRung::kProbe, &poster, uar.doorbell());
  mapped = choice.rung == host::DoorbellRung::kDevice;
  return choice.why;
}

std::string RegisterGpuMemory(const std::string& nic, int gpu) {
  const host::Device device(nic);
  const host::GpuMemory memory(host::Gpu(gpu), host::GpuMemory::kPageBytes);
  const host::MemoryRegion region(device, memory.data(), memory.size());
  return ToString(region.rung());
}

}  // namespace warpverbs::tools
