#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "core/observer.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace softhca {

/// A rule for frames: the fault, and the frames that it applies to.
struct FrameFault {
  enum class Kind : uint8_t { kDrop, kDuplicate, kReorder, kCorrupt, kFlip, kDelay };

  Kind kind = Kind::kDrop;
  double probability = 1;
  Direction direction = Direction::kSent;
  std::optional<uint8_t> opcode{};  ///< all eight bits
  std::optional<uint32_t> qpn{};    ///< destination
  uint64_t nth = 0;                 ///< only the n-th matching frame; 0: each
  uint64_t by_ns = 0;               ///< delay; for kReorder, the longest
};

struct LinkFault {
  std::string port;  ///< "mlx5_0/1"; empty: every port
  uint64_t after_ns = 0;
  std::optional<uint64_t> for_ns{};  ///< none: forever
};

/// Fails the send WQE at an index in place of executing it.
struct SyndromeFault {
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  uint8_t vendor_syndrome = 0;
  std::optional<uint32_t> qpn{};  ///< none: every queue pair
  uint16_t index = 0;
};

/// All faults given by `--fault`. Times count from the first opening of a device.
struct FaultPlan {
  std::vector<FrameFault> frames;
  std::vector<LinkFault> links;
  std::vector<SyndromeFault> syndromes;
  std::optional<uint64_t> kill_after_ns;
  uint64_t slow_ns = 0;  ///< shortest time between two received frames; 0: no limit
  uint64_t seed = 1;

  /// Returns whether queue pairs must exchange frames for the plan to have an effect.
  bool ConcernsFrames() const { return !frames.empty() || slow_ns != 0; }
};

/// Parses the rules.
///
/// @param rules  each KIND[:VALUE][,WORD[=VALUE]]...; docs/softhca.md has the table
/// @errors  std::invalid_argument: names the rule, the word and the remedy
FaultPlan ParseFaults(std::span<const std::string> rules);

/// Checks that every port of the plan exists.
///
/// @errors  std::invalid_argument: names the port
void CheckPorts(const FaultPlan& plan, std::span<const DeviceConfig> devices);

/// Returns the name of a port in a plan: "mlx5_0/1".
std::string PortName(const DeviceConfig& device, size_t port);

}  // namespace softhca
