#include "machine/transfer.hpp"

#include <cstddef>
#include <cstdint>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::programs {
namespace {

using arch::Cpu;

constexpr uint64_t kTimeoutNs = 5'000'000'000;

uint64_t Pattern(uint64_t salt, size_t word) { return (salt + word) * 0x9e3779b97f4a7c15u; }

}  // namespace

TransferMemory::TransferMemory(const host::Device& device, const host::Access& access)
    : pages_(kBytes), region_(device, pages_.data(), kBytes, access) {}

void TransferMemory::Fill(uint64_t salt) const {
  auto* const words = reinterpret_cast<uint64_t*>(pages_.data());
  for (size_t i = 0; i < kBytes / sizeof(uint64_t); ++i) words[i] = Pattern(salt, i);
}

bool TransferMemory::Holds(uint64_t salt) const {
  const auto* const words = reinterpret_cast<const uint64_t*>(pages_.data());
  for (size_t i = 0; i < kBytes / sizeof(uint64_t); ++i)
    if (Cpu::Load(&words[i]) != Pattern(salt, i)) return false;
  return true;
}

std::string WriteAndWait(const host::Endpoint& endpoint, const host::MemoryView& to,
                         const host::MemoryView& from) {
  device::SendQueue<Cpu, device::Exclusive> queue(endpoint.View());
  const device::WaitLimit limit{.deadline_ns = Cpu::NowNs() + kTimeoutNs};
  const device::RemoteMemory remote = to.Remote();
  const device::LocalMemory local = from.Local();
  const device::Posted posted = queue.Post(device::Write(remote, local), limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  if (status.ok()) return "";
  const auto error = endpoint.LastError();
  return error ? error->Describe() : host::Describe(status);
}

std::string TransferOnPort(const std::string& nic, uint8_t port, const DeviceSelection& selection) {
  constexpr uint64_t kSalt = 1;
  const host::Device device(nic);
  const TransferMemory source(device, {}), target(device, {.remote_write = true});
  source.Fill(kSalt);
  // Declared after the memory, so that they are destroyed before it.
  host::Endpoint here(device, selection.Config(port)), there(device, selection.Config(port));
  here.Connect(there.Info());
  there.Connect(here.Info());
  std::string failure = WriteAndWait(here, target.View(), source.View());
  if (failure.empty() && !target.Holds(kSalt)) failure = "the data arrived changed";
  if (!failure.empty()) {
    throw host::Error(
        "write from " + nic, "to itself", failure,
        "Check the port's error counters (`rdma statistic`), and look for mlx5 in the kernel log (dmesg)");
  }
  return std::to_string(TransferMemory::kBytes) + " bytes written and verified";
}

std::string MapDoorbell(const std::string& nic, int gpu, bool& mapped) {
  const host::DoorbellReach reach = host::ProbeDoorbell(host::Device(nic), host::Gpu(gpu));
  mapped = reach.mapped;
  return reach.why;
}

std::string RegisterGpuMemory(const std::string& nic, int gpu) {
  const host::Device device(nic);
  const host::GpuMemory memory(host::Gpu(gpu), host::GpuMemory::kPageBytes);
  const host::MemoryRegion region(device, memory.data(), memory.size());
  return ToString(region.method());
}

}  // namespace warpverbs::programs
