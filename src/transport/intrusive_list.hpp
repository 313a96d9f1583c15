#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace warpverbs::inline v0_2::transport {

/// A node of an IntrusiveList. Items derive from it; items of two lists derive from two nodes of different
/// kinds.
template <class T, int kind = 0>
struct ListNode {
  T* previous = nullptr;
  T* next = nullptr;
};

/// A list that allocates nothing.
template <class T, int kind = 0>
class IntrusiveList {
 public:
  /// Removes all items without touching them.
  void Clear() { first_ = last_ = nullptr; }

  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }

  void Append(T& item) {
    item.Node::previous = last_;
    item.Node::next = nullptr;
    (last_ == nullptr ? first_ : last_->Node::next) = &item;
    last_ = &item;
  }
  void Remove(T& item) {
    T* const previous = item.Node::previous;
    T* const next = item.Node::next;
    (previous == nullptr ? first_ : previous->Node::next) = next;
    (next == nullptr ? last_ : next->Node::previous) = previous;
  }

  /// Calls a function for each item in order. The call may remove its item.
  template <class Function>
  void ForEach(Function function) {
    for (T* item = first_; item != nullptr;) {
      T* const next = item->Node::next;
      function(*item);
      item = next;
    }
  }

 private:
  using Node = ListNode<T, kind>;

  T* first_ = nullptr;
  T* last_ = nullptr;
};

/// A pool of reused objects that never move. Allocates only while it grows.
template <class T>
class Pool {
 public:
  T& Take() {
    if (free_.empty()) Grow();
    T& item = *free_.first();
    free_.Remove(item);
    return item;
  }
  void Give(T& item) {
    item = T();
    free_.Append(item);
  }

 private:
  static constexpr size_t kBlock = 32;

  void Grow() {
    blocks_.push_back(std::make_unique<T[]>(kBlock));
    for (size_t i = 0; i < kBlock; ++i) free_.Append(blocks_.back()[i]);
  }

  std::vector<std::unique_ptr<T[]>> blocks_;
  IntrusiveList<T> free_;
};

}  // namespace warpverbs::inline v0_2::transport
