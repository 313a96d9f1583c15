#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {

/// The page of a doorbell register, mapped for kernels. Registers in one page share its mapping.
class DoorbellMapping {
 public:
  /// Maps it as I/O memory, as a ConnectX has it, or else as plain memory, as a software HCA has it.
  ///
  /// @errors  Error: has the reason of each
  DoorbellMapping(const Gpu& gpu, uint64_t* doorbell);
  ~DoorbellMapping();
  DoorbellMapping(const DoorbellMapping&) = delete;
  DoorbellMapping& operator=(const DoorbellMapping&) = delete;

  bool as_io_memory() const { return as_io_memory_; }
  uint64_t* doorbell() const { return doorbell_; }  ///< for kernels

 private:
  std::byte* page_;
  bool as_io_memory_;
  uint64_t* doorbell_;
};

}  // namespace warpverbs::inline v0_2::host
