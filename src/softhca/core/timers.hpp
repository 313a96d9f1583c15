#pragma once

#include <cstdint>

namespace softhca {

/// Returns the pause that an RNR NAK asks for by its 5-bit code.
///
/// @source  IBTA 1.4, table 46
constexpr uint64_t RnrTimerNs(uint8_t code) {
  constexpr uint32_t kTenMicroseconds[32] = {
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t{kTenMicroseconds[code & 31]} * 10'000;
}

/// Returns the time to wait for an acknowledgement, from its 5-bit code; code 0 means forever.
///
/// @source  IBTA 1.4, 9.7.6.1.3
constexpr uint64_t AckTimeoutNs(uint8_t code) { return uint64_t{4096} << (code & 31); }

inline constexpr uint8_t kRnrRetryForever = 7;  ///< RNR retry count that means "no limit"

}  // namespace softhca
