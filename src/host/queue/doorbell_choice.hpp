#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {

class DoorbellMapping;

/// A choice and its reason.
struct DoorbellChoice {
  DoorbellMode mode = DoorbellMode::kGpu;  ///< never kAuto
  std::string why;
  uint64_t* doorbell = nullptr;                      ///< register that posters write; null if the host rings
  std::shared_ptr<const DoorbellMapping> mapping{};  ///< mapping of the register, if a GPU rings
};

/// Chooses how doorbells reach the NIC. For a GPU, the probe is the mapping itself: as I/O memory, then as
/// plain memory.
///
/// @param gpu  GPU whose kernels post; nullptr: CPU threads post, which reach every mapped register
/// @errors  Error: kGpu is requested, and the GPU cannot reach the register
DoorbellChoice ChooseDoorbell(DoorbellMode asked, const Gpu* gpu, uint64_t* doorbell);

}  // namespace warpverbs::inline v0_2::host
