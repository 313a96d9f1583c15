#pragma once

#include <asio/associated_allocator.hpp>
#include <asio/associated_executor.hpp>
#include <asio/dispatch.hpp>
#include <asio/executor_work_guard.hpp>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "warpverbs/transport/status.hpp"

/// Type erasure of the handlers that completion tokens turn into: callbacks, promises, coroutines.
namespace warpverbs::inline v0_2::transport::detail {

/// A handler bound to its status, for its executor to run.
template <class Function>
struct BoundHandler {
  using allocator_type = asio::associated_allocator_t<Function>;
  allocator_type get_allocator() const noexcept { return asio::get_associated_allocator(function); }
  void operator()() { std::move(function)(std::move(status)); }

  Function function;
  Status status;
};

/// A handler that was not called yet, and the work guard that keeps its executor running until then.
template <class Function, class Executor>
struct GuardedHandler {
  void Complete(Status&& status) {
    const Executor executor = work.get_executor();
    asio::dispatch(executor, BoundHandler<Function>{std::move(function), std::move(status)});
  }

  Function function;
  asio::executor_work_guard<Executor> work;
};

/// Owns a handler of any type. Small handlers are stored inside, large ones by their allocator.
class Handler {
 public:
  Handler() = default;

  /// @param executor  runs the handler unless the handler has an executor of its own
  template <class Function, class Executor>
  Handler(Function function, const Executor& executor) {
    using Chosen = asio::associated_executor_t<Function, Executor>;
    using Held = GuardedHandler<Function, Chosen>;
    Chosen chosen = asio::get_associated_executor(function, executor);
    Emplace<Held>(Held{std::move(function), asio::executor_work_guard<Chosen>(std::move(chosen))});
  }

  Handler(Handler&& other) noexcept { Take(other); }
  Handler& operator=(Handler&& other) noexcept {
    if (this != &other) {
      Drop();
      Take(other);
    }
    return *this;
  }
  ~Handler() { Drop(); }

  explicit operator bool() const { return methods_ != nullptr; }

  /// Passes the status to the handler, and becomes empty. On a thread that runs the handler's executor the
  /// handler has run when this returns.
  void Complete(Status status) {
    const Methods* const methods = std::exchange(methods_, nullptr);
    methods->complete(place_, std::move(status));
  }

 private:
  static constexpr size_t kInlineBytes = 96;

  struct Methods {
    void (*complete)(std::byte* place, Status&& status);
    void (*move)(std::byte* from, std::byte* to);
    void (*drop)(std::byte* place);
  };

  template <class Held>
  struct Inside {
    // NOLINTNEXTLINE(misc-redundant-expression): only for some types
    static constexpr bool kFits = sizeof(Held) <= kInlineBytes && alignof(Held) <= alignof(std::max_align_t);
    static Held& At(std::byte* place) { return *std::launder(reinterpret_cast<Held*>(place)); }
    static Held Remove(std::byte* place) {
      Held held(std::move(At(place)));
      At(place).~Held();
      return held;
    }
  };

  /// Stores a handler that does not fit by a pointer.
  template <class Held>
  struct Outside {
    using Allocator = typename std::allocator_traits<decltype(asio::get_associated_allocator(
        std::declval<Held&>().function))>::template rebind_alloc<Held>;
    using Traits = std::allocator_traits<Allocator>;

    explicit Outside(Held&& from) : allocator(asio::get_associated_allocator(from.function)) {
      held = Traits::allocate(allocator, 1);
      ::new (static_cast<void*>(held)) Held(std::move(from));
    }
    Outside(Outside&& other) noexcept
        : allocator(other.allocator), held(std::exchange(other.held, nullptr)) {}
    ~Outside() {
      if (held == nullptr) return;
      held->~Held();
      Traits::deallocate(allocator, held, 1);
    }
    void Complete(Status&& status) {
      Held own(std::move(*held));
      held->~Held();  // frees the memory first, for the handler's next operation
      Traits::deallocate(allocator, std::exchange(held, nullptr), 1);
      own.Complete(std::move(status));
    }

    Allocator allocator;
    Held* held;
  };

  template <class Held>
  void Emplace(Held&& held) {
    using Plain = std::remove_cvref_t<Held>;
    using Stored = std::conditional_t<Inside<Plain>::kFits, Plain, Outside<Plain>>;
    static constexpr Methods kMethods = {
        [](std::byte* place, Status&& status) { Inside<Stored>::Remove(place).Complete(std::move(status)); },
        [](std::byte* from, std::byte* to) {
          ::new (static_cast<void*>(to)) Stored(Inside<Stored>::Remove(from));
        },
        [](std::byte* place) { Inside<Stored>::At(place).~Stored(); }};
    ::new (static_cast<void*>(place_)) Stored(std::forward<Held>(held));
    methods_ = &kMethods;
  }

  void Take(Handler& other) {
    methods_ = std::exchange(other.methods_, nullptr);
    if (methods_ != nullptr) methods_->move(other.place_, place_);
  }
  void Drop() {
    if (methods_ != nullptr) std::exchange(methods_, nullptr)->drop(place_);
  }

  alignas(std::max_align_t) std::byte place_[kInlineBytes];
  const Methods* methods_ = nullptr;
};

}  // namespace warpverbs::inline v0_2::transport::detail
