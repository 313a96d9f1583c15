#pragma once

#include <chrono>
#include <utility>

namespace warpverbs::transport {

using Clock = std::chrono::steady_clock;

/// A place in Deadlines: what is in one derives from it.
template <class T>
struct DeadlineNode {
  Clock::time_point deadline = Clock::time_point::max();  ///< max(): none, and it is in no Deadlines
  T* child = nullptr;                                     ///< the first of those that are due later
  T* sibling = nullptr;                                   ///< the next child of the same one
  T* elder = nullptr;  ///< the sibling before; of the first child, the parent
};

/// Those who wait until a time, the earliest first: a pairing heap, which allocates nothing. One more costs
/// the same however many there are, one less the logarithm of that on average (Fredman et al., The Pairing
/// Heap, 1986).
template <class T>
class Deadlines {
 public:
  /// The one that is due first; null: nobody waits.
  T* first() const { return root_; }
  /// When it is due.
  Clock::time_point next() const { return root_ == nullptr ? Clock::time_point::max() : root_->deadline; }

  /// @param deadline  max(): never, so that it need not be in here
  void Add(T& item, Clock::time_point deadline) {
    item.deadline = deadline;
    if (deadline != Clock::time_point::max()) root_ = Meld(root_, &item);
  }

  /// Does nothing to one that has no deadline.
  void Remove(T& item) {
    if (item.deadline == Clock::time_point::max()) return;
    T* const later = MeldAll(std::exchange(item.child, nullptr));
    if (&item == root_) {
      root_ = later;
    } else {
      CutOut(item);
      root_ = Meld(root_, later);
    }
    item.deadline = Clock::time_point::max();
  }

 private:
  /// @pre  both are roots, or null
  static T* Meld(T* a, T* b) {
    if (a == nullptr) return b;
    if (b == nullptr) return a;
    if (b->deadline < a->deadline) std::swap(a, b);
    b->elder = a;
    b->sibling = a->child;
    if (b->sibling != nullptr) b->sibling->elder = b;
    a->child = b;
    return a;
  }

  /// Makes one of siblings: of neighbours first, then of these from the last to the first.
  static T* MeldAll(T* first) {
    T* pairs = nullptr;  // the last one first
    while (first != nullptr) {
      T* const a = first;
      T* const b = std::exchange(a->sibling, nullptr);
      first = b == nullptr ? nullptr : std::exchange(b->sibling, nullptr);
      a->elder = nullptr;
      if (b != nullptr) b->elder = nullptr;
      T* const pair = Meld(a, b);
      pair->sibling = std::exchange(pairs, pair);
    }
    T* all = nullptr;
    while (pairs != nullptr) {
      T* const next = std::exchange(pairs->sibling, nullptr);
      all = Meld(all, pairs);
      pairs = next;
    }
    return all;
  }

  /// @pre  it has no children, and is not the root
  static void CutOut(T& item) {
    T* const before = std::exchange(item.elder, nullptr);
    T* const behind = std::exchange(item.sibling, nullptr);
    (before->child == &item ? before->child : before->sibling) = behind;
    if (behind != nullptr) behind->elder = before;
  }

  T* root_ = nullptr;
};

}  // namespace warpverbs::transport
