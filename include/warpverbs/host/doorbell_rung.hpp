#pragma once

#include <cstdint>
#include <functional>

namespace warpverbs::host {

/// Who brings a send queue's doorbells to the NIC. Posters call the same functions whoever does.
enum class DoorbellRung : uint8_t {
  kProbe,      ///< kDevice if the probe says so, else kHostRings
  kDevice,     ///< the poster stores to the NIC's register
  kHostRings,  ///< the poster stores to a word in host memory, and a host thread rings for it
  kHostPosts,  ///< the host thread copies the WQEs into the queue too: the NIC reads none that the poster
               ///< wrote
};

/// Says whether the processor that will ring can store to a doorbell register of this process.
using DoorbellProbe = std::function<bool(uint64_t* doorbell)>;

/// What was chosen, and why in words.
struct DoorbellChoice {
  DoorbellRung rung = DoorbellRung::kDevice;  ///< never kProbe
  const char* why = "";
};

/// Chooses who rings.
///
/// @param asked  kProbe leaves it to the probe
/// @param probe  empty: the CPU rings, which can reach every register that is mapped
/// @errors  Error: kDevice is asked for, and the probe says that it cannot
DoorbellChoice ChooseDoorbell(DoorbellRung asked, const DoorbellProbe& probe, uint64_t* doorbell);

const char* ToString(DoorbellRung rung);

}  // namespace warpverbs::host
