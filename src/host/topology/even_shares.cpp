#include "topology/even_shares.hpp"

#include <algorithm>
#include <deque>

namespace warpverbs::inline v0_2::host {
namespace {

/// The current assignment, and the search for a chain of moves that evens it out.
class Shares {
 public:
  Shares(const std::vector<std::vector<size_t>>& choices, std::vector<size_t>& loads)
      : choices_(choices), loads_(loads), taken_(choices.size(), kNothing) {}

  std::vector<size_t> Compute() {
    for (size_t taker = 0; taker < choices_.size(); ++taker) TakeLeast(taker);
    size_t thing = 0;
    while (thing < loads_.size()) thing = Relieve(thing) ? 0 : thing + 1;
    return taken_;
  }

 private:
  void TakeLeast(size_t taker) {
    const std::vector<size_t>& mine = choices_[taker];
    if (mine.empty()) return;
    const auto less = [this](size_t a, size_t b) { return loads_[a] < loads_[b]; };
    taken_[taker] = *std::min_element(mine.begin(), mine.end(), less);
    ++loads_[taken_[taker]];
  }

  /// Finds a chain of takers from `full` to a thing with at least two takers less, such that each taker may
  /// take the next one's thing, and moves each of them on. Every move lowers the sum of squares, so the moves
  /// end.
  bool Relieve(size_t full) {
    std::vector<size_t> mover(loads_.size(), kNothing);  // the taker that would move to each thing
    std::deque<size_t> reached = {full};
    for (; !reached.empty(); reached.pop_front()) {
      const size_t from = reached.front();
      if (loads_[from] + 2 <= loads_[full]) {
        MoveAlong(full, from, mover);
        return true;
      }
      for (size_t taker = 0; taker < taken_.size(); ++taker) {
        if (taken_[taker] != from) continue;
        for (const size_t to : choices_[taker]) {
          if (to == full || mover[to] != kNothing) continue;
          mover[to] = taker;
          reached.push_back(to);
        }
      }
    }
    return false;
  }

  void MoveAlong(size_t full, size_t free, const std::vector<size_t>& mover) {
    ++loads_[free];
    --loads_[full];
    for (size_t to = free; to != full;) {
      const size_t taker = mover[to];
      const size_t from = taken_[taker];
      taken_[taker] = to;
      to = from;
    }
  }

  const std::vector<std::vector<size_t>>& choices_;
  std::vector<size_t>& loads_;
  std::vector<size_t> taken_;
};

}  // namespace

std::vector<size_t> ShareEvenly(const std::vector<std::vector<size_t>>& choices, std::vector<size_t>& loads) {
  return Shares(choices, loads).Compute();
}

}  // namespace warpverbs::inline v0_2::host
