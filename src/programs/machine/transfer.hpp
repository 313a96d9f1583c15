#pragma once

#include <string>

#include "common/device_selection.hpp"
#include "machine/survey.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

/// Functions that try what a machine can do. Each throws host::Error or another std::exception on failure.
namespace warpverbs::programs {

/// Source or target memory of a transfer.
class TransferMemory {
 public:
  static constexpr size_t kBytes = 65536;

  TransferMemory(const host::Device& device, const host::Access& access);

  /// Fills the memory with a pattern that differs by offset and salt.
  void Fill(uint64_t salt) const;

  /// Returns whether the memory holds the pattern of Fill(salt).
  bool Holds(uint64_t salt) const;

  host::MemoryView View() const { return region_.View(); }

 private:
  host::HostPages pages_;
  host::MemoryRegion region_;
};

/// Posts a write by the CPU, and waits up to 5 s for its completion.
///
/// @return  "" on success, or the reason of the failure
std::string WriteAndWait(const host::Endpoint& endpoint, const host::MemoryView& to,
                         const host::MemoryView& from);

/// Connects two endpoints on one port, writes from one to the other by the CPU, and verifies the data.
///
/// @return  a description of the transfer
std::string TransferOnPort(const std::string& nic, uint8_t port, const DeviceSelection& selection = {});

/// Maps a doorbell register of a NIC for a GPU.
///
/// @param gpu     the ordinal
/// @param mapped  set to whether the GPU reaches the register; otherwise a host thread must ring
/// @return  how it was mapped, or why not
std::string MapDoorbell(const std::string& nic, int gpu, bool& mapped);

/// Registers memory of a GPU with a NIC.
///
/// @return  the registration method
std::string RegisterGpuMemory(const std::string& nic, int gpu);

}  // namespace warpverbs::programs
