#pragma once

#include <cstdint>

#include "perf/options/options.hpp"
#include "perf/party/memory.hpp"
#include "perf/party/party.hpp"

/// Messages whose every byte is known, so that none can be lost, be stale or change unseen.
namespace warpverbs::perf {

/// The byte at an offset of the message in a place (chunk) of a flow; other rounds have others.
uint8_t PatternByte(uint64_t round, uint32_t flow, uint32_t chunk, uint64_t offset);

/// Writes the messages of a round to the places that they are taken from.
void FillSources(const Party& party, const Layout& layout, uint64_t round);

/// Zeroes the places that they come to.
void ClearTargets(const Party& party, const Layout& layout);

/// Compares what came with what was sent.
///
/// @param messages     of each flow in the round
/// @param first_place  of the first message; the next ones go on from there
/// @errors  std::runtime_error: names queue pair, chunk, offset, the expected and the actual byte of the
/// first
///          that differs, and counts the others
void CheckTargets(const Party& party, const Layout& layout, uint64_t round, uint32_t messages,
                  uint32_t first_place);

/// Compares the words that atomics have counted in: each has counted its messages.
///
/// @errors  as CheckTargets()
void CheckCounts(const Party& party, const Layout& layout, uint32_t messages);

}  // namespace warpverbs::perf
