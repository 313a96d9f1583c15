#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/hca.hpp"
#include "fuzz/require.hpp"

namespace softhca {

/// Registered regions separated by guard memory that no access may touch. Addresses and keys are the same in
/// every run, so an input is reproducible.
class GuardedMemory {
 public:
  static constexpr size_t kRegionBytes = 4096, kGuardBytes = 512;
  static constexpr uint64_t kFirstAddress = 0x10000;  ///< IOVA of the first region

  GuardedMemory(Hca& hca, uint32_t pdn)
      : bytes_(kRegions * (kGuardBytes + kRegionBytes) + kGuardBytes, kGuard) {
    for (size_t region = 0; region < kRegions; ++region) {
      std::fill_n(Begin(region), kRegionBytes, kContents);
      keys_[region] = hca.RegisterMemory({.pdn = pdn,
                                          .access = kAccess[region],
                                          .iova = kFirstAddress + region * kRegionBytes,
                                          .memory = Begin(region),
                                          .bytes = kRegionBytes,
                                          .revocable = region == 0});
    }
  }

  /// Returns the key of the region that allows every access.
  uint32_t key() const { return keys_[0]; }

  /// Returns whether a piece is within one region.
  bool Holds(Bytes piece) const {
    for (size_t region = 0; region < kRegions; ++region) {
      const uint8_t* const begin = bytes_.data() + Offset(region);
      if (piece.data() >= begin && piece.data() + piece.size() <= begin + kRegionBytes) return true;
    }
    return false;
  }

  /// Requires that the guard memory and the read-only region are unchanged.
  void Check() const {
    for (size_t region = 0; region <= kRegions; ++region) {
      const auto guard = bytes_.begin() + static_cast<ptrdiff_t>(Offset(region) - kGuardBytes);
      Require(std::all_of(guard, guard + kGuardBytes, [](uint8_t byte) { return byte == kGuard; }),
              "nothing outside registered regions is written");
    }
    const auto read_only = bytes_.begin() + static_cast<ptrdiff_t>(Offset(kReadOnly));
    Require(std::all_of(read_only, read_only + kRegionBytes, [](uint8_t byte) { return byte == kContents; }),
            "a read-only region is not written");
  }

 private:
  static constexpr uint32_t kAll =
      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  static constexpr std::array<uint32_t, 3> kAccess{kAll, kAccessRemoteRead, kAccessLocalWrite};
  static constexpr size_t kRegions = kAccess.size(), kReadOnly = 1;
  static constexpr uint8_t kGuard = 0xfd, kContents = 0x11;

  static size_t Offset(size_t region) { return kGuardBytes + region * (kGuardBytes + kRegionBytes); }
  uint8_t* Begin(size_t region) { return bytes_.data() + Offset(region); }

  std::vector<uint8_t> bytes_;
  std::array<uint32_t, kRegions> keys_{};
};

}  // namespace softhca
