#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace warpverbs::transport {

/// A place in an IntrusiveList: what is in one derives from it, and in two, from two of different kinds.
template <class T, int kind = 0>
struct ListNode {
  T* before = nullptr;
  T* behind = nullptr;
};

/// A list that allocates nothing.
template <class T, int kind = 0>
class IntrusiveList {
 public:
  /// Forgets all of them.
  void Clear() { first_ = last_ = nullptr; }

  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }

  void Append(T& item) {
    item.Node::before = last_;
    item.Node::behind = nullptr;
    (last_ == nullptr ? first_ : last_->Node::behind) = &item;
    last_ = &item;
  }
  void Remove(T& item) {
    T* const before = item.Node::before;
    T* const behind = item.Node::behind;
    (before == nullptr ? first_ : before->Node::behind) = behind;
    (behind == nullptr ? last_ : behind->Node::before) = before;
  }

  /// Calls for each in order; the call may remove it.
  template <class Function>
  void ForEach(Function function) {
    for (T* item = first_; item != nullptr;) {
      T* const next = item->Node::behind;
      function(*item);
      item = next;
    }
  }

 private:
  using Node = ListNode<T, kind>;

  T* first_ = nullptr;
  T* last_ = nullptr;
};

/// Objects that are used again and never move: once there are enough, nothing is allocated.
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

}  // namespace warpverbs::transport
