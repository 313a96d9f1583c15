#pragma once

#include <cstddef>
#include <vector>

namespace warpverbs::inline v0_2::host {

/// Gives each taker one of the things that it may have, so that loads are as even as possible.
///
/// Minimizes the sum of squared loads. On a tie the first thing wins.
///
/// @param choices  things that each taker may have, ascending; a taker without a choice gets nothing
/// @param loads    number of takers that each thing has already; updated
/// @return  the thing of each taker, or kNothing
/// @source  Harvey, Ladner, Lovasz, Tamir: Semi-matchings for bipartite graphs and load balancing, 2003,
/// section 4.2
std::vector<size_t> ShareEvenly(const std::vector<std::vector<size_t>>& choices, std::vector<size_t>& loads);

inline constexpr size_t kNothing = static_cast<size_t>(-1);

}  // namespace warpverbs::inline v0_2::host
