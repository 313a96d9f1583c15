#pragma once

#include <memory>

namespace warpverbs::inline v0_2::host {

/// Calls a C library's release function and drops its result: a destructor cannot report it.
template <auto kRelease>
struct Release {
  template <class T>
  void operator()(T* object) const {
    kRelease(object);
  }
};

/// Owns an object of a C library: `Handle<ibv_pd, ibv_dealloc_pd>`.
template <class T, auto kRelease>
using Handle = std::unique_ptr<T, Release<kRelease>>;

}  // namespace warpverbs::inline v0_2::host
