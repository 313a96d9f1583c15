#pragma once

#include <string>

#include "common/fabric.hpp"
#include "machine/survey.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/memory.hpp"

/// What can only be found out by doing it. Each throws host::Error or another std::exception where it fails.
namespace warpverbs::programs {

/// Memory that is written by a transfer, or to by one.
class TransferMemory {
 public:
  static constexpr size_t kBytes = 65536;

  TransferMemory(const host::Device& device, const host::Access& access);

  /// Fills it so that no two places and no two salts look alike.
  void Fill(uint64_t salt) const;

  /// Whether it is as Fill(salt) leaves it.
  bool Holds(uint64_t salt) const;

  host::MemoryView View() const { return region_.View(); }

 private:
  host::HostPages pages_;
  host::MemoryRegion region_;
};

/// Posts a write by the CPU, and waits until it is done, for 5 s at most.
///
/// @return  "", or why it failed
std::string WriteAndWait(const host::Endpoint& endpoint, const host::MemoryView& to,
                         const host::MemoryView& from);

/// Connects two endpoints of this process on one port, writes from one to the other by the CPU, and verifies
/// the data.
///
/// @return  what was done, in words
std::string TransferOnPort(const std::string& nic, uint8_t port, const Fabric& fabric = {});

/// Maps a doorbell register of a NIC for a GPU.
///
/// @param gpu     the ordinal
/// @param mapped  set to whether the GPU reaches it: else a host thread must ring
/// @return  how, or why not
std::string MapDoorbell(const std::string& nic, int gpu, bool& mapped);

/// Registers memory of a GPU with a NIC.
///
/// @return  by which rung
std::string RegisterGpuMemory(const std::string& nic, int gpu);

}  // namespace warpverbs::programs
