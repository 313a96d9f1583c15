#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "warpverbs/host/gpu.hpp"

namespace warpverbs::host {

/// Who brings a send queue's doorbells to the NIC. Posters call the same functions whoever does.
enum class DoorbellRung : uint8_t {
  kProbe,      ///< kDevice if whoever posts reaches the register, else kHostRings
  kDevice,     ///< the poster stores to the NIC's register
  kHostRings,  ///< the poster stores to a word in host memory, and a host thread rings for it
  kHostPosts,  ///< the host thread copies the WQEs into the queue too: the NIC reads none that the poster
               ///< wrote
};

class DoorbellMapping;  // the library's own

/// What was chosen, and why in words.
struct DoorbellChoice {
  DoorbellRung rung = DoorbellRung::kDevice;  ///< never kProbe
  std::string why;
  uint64_t* doorbell = nullptr;                      ///< where posters ring, if it is they who ring the NIC
  std::shared_ptr<const DoorbellMapping> mapping{};  ///< of the register, where a GPU rings
};

/// Chooses who rings. For a GPU the probe is the mapping itself: as I/O memory, then as plain memory.
///
/// @param gpu  whose kernels post; nullptr: threads of the CPU, which can reach every register that is mapped
/// @errors  Error: kDevice is asked for, and the GPU cannot reach the register
DoorbellChoice ChooseDoorbell(DoorbellRung asked, const Gpu* gpu, uint64_t* doorbell);

const char* ToString(DoorbellRung rung);

}  // namespace warpverbs::host
