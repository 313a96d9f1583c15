#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {

class DoorbellMapping;  // the library's own

/// What was chosen, and why in words.
struct DoorbellChoice {
  DoorbellMode mode = DoorbellMode::kGpu;  ///< never kAuto
  std::string why;
  uint64_t* doorbell = nullptr;                      ///< where posters ring, if it is they who ring the NIC
  std::shared_ptr<const DoorbellMapping> mapping{};  ///< of the register, where a GPU rings
};

/// Chooses who rings. For a GPU the probe is the mapping itself: as I/O memory, then as plain memory.
///
/// @param gpu  whose kernels post; nullptr: threads of the CPU, which can reach every register that is mapped
/// @errors  Error: kGpu is asked for, and the GPU cannot reach the register
DoorbellChoice ChooseDoorbell(DoorbellMode asked, const Gpu* gpu, uint64_t* doorbell);

}  // namespace warpverbs::inline v0_2::host
