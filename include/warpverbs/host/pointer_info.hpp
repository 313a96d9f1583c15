#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// Whose memory an address is.
enum class PointerKind : uint8_t {
  kUnknown,  ///< nobody's: null, a reserved range that nothing is mapped to, or the driver fails
  kHost,     ///< the processor's, if anything is there: no driver knows it
  kPinned,   ///< the processor's, allocated by CUDA or HIP or registered with it
  kDevice,   ///< a GPU's, of cuMemAlloc() or of a pool
  kVmm,      ///< a GPU's, of cuMemCreate()
  kManaged,  ///< moves between processor and GPU
  kHip,      ///< a GPU's of AMD
};
WARPVERBS_EXPORT const char* ToString(PointerKind kind);

/// What is known of an address.
struct PointerInfo {
  PointerKind kind = PointerKind::kUnknown;
  int ordinal = -1;  ///< ordinal of the Gpu, or of the HipGpu if of_hip; -1: none

  // The allocation; of memory of cuMemCreate(), the one mapping that the address lies in. 0: not known.
  uint64_t base = 0;
  uint64_t bytes = 0;

  /// Differs between any two allocations in the life of this process, also where the second got the address
  /// of the first; of memory of cuMemCreate(), between what is mapped there. 0: the driver tells none.
  uint64_t buffer_id = 0;

  bool ipc = false;           ///< cuIpcGetMemHandle() takes it
  bool gpu_direct = false;    ///< a NIC may reach it
  uint64_t handle_types = 0;  ///< CUmemAllocationHandleType bits that it can be exported as

  bool of_hip = false;  ///< HIP knows the memory, not CUDA

  /// Of NVIDIA: what Gpu is for.
  bool on_gpu() const { return kind == PointerKind::kDevice || kind == PointerKind::kVmm; }

  friend bool operator==(const PointerInfo&, const PointerInfo&) = default;
};

/// Says what an address is. Loads no driver and no runtime: where the program has loaded neither CUDA's nor
/// HIP's, all memory is the host's. The program's last error of HIP stays as it was.
WARPVERBS_EXPORT PointerInfo DescribePointer(const void* memory);

/// Says what a range is, piece by piece in order of address: memory of cuMemCreate() may have many.
///
/// The pieces are whole allocations, or mappings; the first may begin before the range, the last end after
/// it. Only the last may be of no known extent, or of another kind than the first.
WARPVERBS_EXPORT std::vector<PointerInfo> DescribeRange(const void* memory, size_t bytes);

}  // namespace warpverbs::inline v0_2::host
