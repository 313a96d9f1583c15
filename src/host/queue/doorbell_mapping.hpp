#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/host/gpu.hpp"

namespace warpverbs::inline v0_2::host {

/// Maps the page of a doorbell register for kernels. Registers in one page share the mapping.
class DoorbellMapping {
 public:
  /// Maps the page as I/O memory, which a ConnectX has, or else as plain memory, which a software HCA has.
  ///
  /// @errors  Error: names the reasons of both failures
  DoorbellMapping(const Gpu& gpu, uint64_t* doorbell);
  ~DoorbellMapping();
  DoorbellMapping(const DoorbellMapping&) = delete;
  DoorbellMapping& operator=(const DoorbellMapping&) = delete;

  bool as_io_memory() const { return as_io_memory_; }
  uint64_t* doorbell() const { return doorbell_; }  ///< register's address for kernels

 private:
  std::byte* page_;
  bool as_io_memory_;
  uint64_t* doorbell_;
};

}  // namespace warpverbs::inline v0_2::host
