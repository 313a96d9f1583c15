#pragma once

#include <cstdint>

/// What a ConnectX-7 says of itself wherever it is asked: in /sys, in QUERY_DEVICE and in QUERY_HCA_CAP.
namespace softhca::identity {

inline constexpr uint16_t kPciVendor = 0x15b3;
inline constexpr uint16_t kPciDevice = 0x1021;
inline constexpr uint32_t kIeeeVendor = 0x02c9;
inline constexpr uint32_t kFirmwareMajor = 28, kFirmwareMinor = 39, kFirmwarePatch = 1002;
inline constexpr char kPciDomain[] = "ca7e";  ///< no machine has it, so that paths with it are ours
inline constexpr const char* kBoard = "SOFTHCA_CX7";

inline constexpr uint32_t kUverbsMajor = 231;
inline constexpr uint32_t kUverbsFirstMinor = 192;

}  // namespace softhca::identity
