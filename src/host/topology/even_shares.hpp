#pragma once

#include <cstddef>
#include <vector>

namespace warpverbs::host {

/// Gives each of some takers one of the things that it may have, so that the things are shared as evenly as
/// can be.
///
/// No other choice would have a smaller sum of squared loads. A tie goes to the thing that comes first.
///
/// @param choices  for each taker what it may have, ascending; a taker without a choice gets nothing
/// @param loads    how often each thing is taken already; counted up
/// @return  for each taker the thing, or kNothing
/// @source  Harvey, Ladner, Lovasz, Tamir: Semi-matchings for bipartite graphs and load balancing, 2003,
/// section 4.2
std::vector<size_t> ShareEvenly(const std::vector<std::vector<size_t>>& choices, std::vector<size_t>& loads);

inline constexpr size_t kNothing = static_cast<size_t>(-1);

}  // namespace warpverbs::host
