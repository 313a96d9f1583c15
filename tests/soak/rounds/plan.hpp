#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

/// What happens in a round of chaos. The seed and the number of the round decide all of it, so that every
/// process of the round knows it, and a later run repeats it.
namespace soak {

enum class RoundKind : uint8_t {
  kEndpoints,   ///< endpoints of the library, all operations
  kLives,       ///< the same, but set up, connected and destroyed as often as possible
  kTransports,  ///< the host transport
  kPrograms,    ///< pairs of warpverbs-perf
  kVerbs,       ///< the soak of plain verbs
};

/// What the controller does to a process of a side.
struct Disruption {
  enum class Act : uint8_t { kKillProgram, kKillLauncher, kStop };
  Act act;
  uint32_t side;
  std::chrono::milliseconds after;  ///< since the program of the side started
  std::chrono::milliseconds pause;  ///< for kStop, until it continues
};

/// Limits of a side's program. 0: none.
struct LimitPlan {
  uint64_t files = 0;         ///< descriptors beside those that it has at its start
  uint64_t file_bytes = 0;    ///< RLIMIT_FSIZE, of the launcher, too
  uint64_t memory_bytes = 0;  ///< addresses beside those that it has mapped at its start
  uint64_t locked_bytes = 0;  ///< RLIMIT_MEMLOCK

  bool any() const { return (files | file_bytes | memory_bytes | locked_bytes) != 0; }
};

struct RoundPlan {
  uint64_t seed;  ///< seed of choices that the round's sides make
  RoundKind kind;
  uint32_t processes;  ///< 1: both sides are threads of one
  uint32_t lives;      ///< how often the sides connect
  bool link_fails;
  bool misbehaves;  ///< the sides post operations that must fail, and disconnect
  bool forks;
  std::vector<std::string> softhca[2];  ///< options of each side's launcher
  LimitPlan limits[2];
  std::vector<Disruption> disruptions;
  /// Command lines of programs that are not chaos. # is the port that side 0 prints.
  std::vector<std::string> program[2];

  std::string Describe() const;
};

RoundPlan PlanOf(uint64_t seed, uint64_t round);

const char* ToString(RoundKind kind);

}  // namespace soak
