#pragma once

#include <chrono>
#include <utility>

namespace warpverbs::inline v0_2::transport {

using Clock = std::chrono::steady_clock;

/// A node of Deadlines. Items derive from it.
template <class T>
struct DeadlineNode {
  Clock::time_point deadline = Clock::time_point::max();  ///< max(): no deadline, so it is in no Deadlines
  T* child = nullptr;                                     ///< first of the items that are due later
  T* sibling = nullptr;                                   ///< next child of the same parent
  T* previous_sibling = nullptr;  ///< previous sibling; the first child has its parent here
};

/// A priority queue of items by deadline: a pairing heap, which allocates nothing.
///
/// To add an item costs constant time, to remove one logarithmic time on average.
/// @source  Fredman et al., The Pairing Heap, 1986
template <class T>
class Deadlines {
 public:
  /// Returns the item that is due first, or null.
  T* first() const { return root_; }
  /// Returns the time when it is due; max(): there is no item.
  Clock::time_point next() const { return root_ == nullptr ? Clock::time_point::max() : root_->deadline; }

  /// @param deadline  max(): none, so that the item is not added
  void Add(T& item, Clock::time_point deadline) {
    item.deadline = deadline;
    if (deadline != Clock::time_point::max()) root_ = Meld(root_, &item);
  }

  /// Removes an item. Does nothing if it has no deadline.
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
    b->previous_sibling = a;
    b->sibling = a->child;
    if (b->sibling != nullptr) b->sibling->previous_sibling = b;
    a->child = b;
    return a;
  }

  /// Melds siblings into one heap: first neighbours in pairs, then the pairs from last to first.
  static T* MeldAll(T* first) {
    T* pairs = nullptr;  // in reverse order
    while (first != nullptr) {
      T* const a = first;
      T* const b = std::exchange(a->sibling, nullptr);
      first = b == nullptr ? nullptr : std::exchange(b->sibling, nullptr);
      a->previous_sibling = nullptr;
      if (b != nullptr) b->previous_sibling = nullptr;
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

  /// @pre  the item has no children, and is not the root
  static void CutOut(T& item) {
    T* const previous = std::exchange(item.previous_sibling, nullptr);
    T* const next = std::exchange(item.sibling, nullptr);
    (previous->child == &item ? previous->child : previous->sibling) = next;
    if (next != nullptr) next->previous_sibling = previous;
  }

  T* root_ = nullptr;
};

}  // namespace warpverbs::inline v0_2::transport
