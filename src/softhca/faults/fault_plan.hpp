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

/// What happens to frames that a rule matches.
struct FrameFault {
  enum class Kind : uint8_t { kDrop, kDuplicate, kReorder, kCorrupt, kFlip, kDelay };

  Kind kind = Kind::kDrop;
  double probability = 1;
  Direction direction = Direction::kSent;
  std::optional<uint8_t> opcode{};  ///< all eight bits
  std::optional<uint32_t> qpn{};    ///< that the frame goes to
  uint64_t nth = 0;                 ///< only the n-th that matches the above; 0: each
  uint64_t by_ns = 0;               ///< of a delay; of reordering, the longest
};

struct LinkFault {
  std::string port;  ///< "mlx5_0/1"; empty: every one
  uint64_t after_ns = 0;
  std::optional<uint64_t> for_ns{};  ///< none: for good
};

/// Fails the send entry of an index in place of executing it.
struct SyndromeFault {
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  uint8_t vendor_syndrome = 0;
  std::optional<uint32_t> qpn{};  ///< none: of every queue pair
  uint16_t index = 0;
};

/// All that is to go wrong, as `--fault` says it. Times count from the first opening of a device.
struct FaultPlan {
  std::vector<FrameFault> frames;
  std::vector<LinkFault> links;
  std::vector<SyndromeFault> syndromes;
  std::optional<uint64_t> kill_after_ns;
  uint64_t slow_ns = 0;  ///< the least time between two frames received; 0: none
  uint64_t seed = 1;

  /// Whether queue pairs must exchange frames for the plan to have an effect.
  bool ConcernsFrames() const { return !frames.empty() || slow_ns != 0; }
};

/// @param rules  each KIND[:VALUE][,WORD[=VALUE]]...; docs/softhca.md has the table
/// @errors  std::invalid_argument: a sentence
FaultPlan ParseFaults(std::span<const std::string> rules);

/// Refuses a plan for a port that no device has.
///
/// @errors  std::invalid_argument: a sentence
void CheckPorts(const FaultPlan& plan, std::span<const DeviceConfig> devices);

/// The name of a port in a plan: "mlx5_0/1".
std::string PortName(const DeviceConfig& device, size_t port);

}  // namespace softhca
