#pragma once

#include <cstdint>

#include "perf/options/options.hpp"
#include "perf/side/memory.hpp"
#include "perf/side/side.hpp"

/// Validates every byte of messages, so that a lost, stale or changed message is found.
namespace warpverbs::perf {

/// Returns the byte at an offset of the message in a slot (chunk) of a flow. It differs from round to round.
uint8_t PatternByte(uint64_t round, uint32_t flow, uint32_t chunk, uint64_t offset);

/// Writes the messages of a round to the source slots.
void FillSources(const PerfSide& side, const Layout& layout, uint64_t round);

/// Zeroes the target slots.
void ClearTargets(const PerfSide& side, const Layout& layout);

/// Compares received messages with those sent.
///
/// @param messages    messages of each flow in the round
/// @param first_slot  slot of the first message; the others follow it
/// @errors  std::runtime_error: names queue pair, chunk, offset, expected and actual byte of the first
///          difference, and the number of wrong bytes
void CheckTargets(const PerfSide& side, const Layout& layout, uint64_t round, uint32_t messages,
                  uint32_t first_slot);

/// Checks that the words that atomics count in have counted all messages.
///
/// @errors  as CheckTargets()
void CheckCounts(const PerfSide& side, const Layout& layout, uint32_t messages);

}  // namespace warpverbs::perf
