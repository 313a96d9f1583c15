#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpuio/ring/consumer.hpp"
#include "warpverbs/version.hpp"

/// Names and targets of the links in a mount's control folder. Parsing accepts what printing makes, and
/// nothing else.
namespace warpverbs::inline v0_2::gpuio {

/// The name of an iov on a mount.
using IovId = std::array<uint8_t, 16>;

std::string ToHex(const IovId& id);

/// What a link in `3fs-virt/iovs` is: `<32 hex>[.b<block>][.r<depth>|.w<depth>][.ph|.pl][.t<ms>][.f<binary>]`
/// for memory of the host, `<32 hex>.gdr.d<device>` for memory of a GPU.
struct LinkName {
  IovId id{};
  uint64_t block_bytes = 0;          ///< 0: no blocks
  std::optional<RingConfig> ring{};  ///< the memory is a ring; its priority is -1, 0 or 1
  std::optional<int> gpu{};          ///< ordinal of the GPU

  std::string ToString() const;
  static std::optional<LinkName> Parse(std::string_view text);

  friend bool operator==(const LinkName&, const LinkName&) = default;
};

/// Where a GPU iov's link points: an allocation of a GPU, and how to open it.
///
/// `gdr://v2/device/D/allocation/A/offset/O/size/S/` and then `ipc/<128 hex>`, or `dmabuf` where no process
/// can open it.
struct GpuUri {
  int device = 0;
  uint64_t allocation_bytes = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::optional<std::array<uint8_t, 64>> ipc_handle{};

  std::string ToString() const;

  /// Parses digits in one spelling and hexadecimal letters of either case.
  ///
  /// @return  empty: another form, or the range leaves its allocation
  static std::optional<GpuUri> Parse(std::string_view text);

  friend bool operator==(const GpuUri&, const GpuUri&) = default;
};

/// Returns the name of a file of /dev/shm that a link points to; empty: it points elsewhere.
std::string ShmNameOf(std::string_view target);

}  // namespace warpverbs::inline v0_2::gpuio
