#pragma once

#include <cstdint>

/// Identity of a ConnectX-7, as reported in /sys, by QUERY_DEVICE and by QUERY_HCA_CAP.
namespace softhca::identity {

inline constexpr uint16_t kPciVendor = 0x15b3;
inline constexpr uint16_t kPciDevice = 0x1021;
inline constexpr uint32_t kIeeeVendor = 0x02c9;
inline constexpr uint32_t kFirmwareMajor = 28, kFirmwareMinor = 39, kFirmwarePatch = 1002;
inline constexpr char kPciDomain[] = "ca7e";  ///< used by no machine: paths with it belong to softhca
inline constexpr const char* kBoard = "SOFTHCA_CX7";

inline constexpr uint32_t kUverbsMajor = 231;
inline constexpr uint32_t kUverbsFirstMinor = 192;
inline constexpr uint32_t kMiscMajor = 10;
inline constexpr uint32_t kRdmaCmMinor = 58;

/// Major and minor number of a character device; major 0: no device.
struct DeviceNode {
  uint32_t major = 0, minor = 0;
  explicit operator bool() const { return major != 0; }
  friend constexpr bool operator==(const DeviceNode&, const DeviceNode&) = default;
};

constexpr DeviceNode UverbsNode(uint32_t device) { return {kUverbsMajor, kUverbsFirstMinor + device}; }
inline constexpr DeviceNode kRdmaCmNode{kMiscMajor, kRdmaCmMinor};

}  // namespace softhca::identity
