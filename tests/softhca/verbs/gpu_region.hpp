#pragma once

#include <optional>
#include <vector>

#include "verbs/gpu_memory.hpp"
#include "verbs/peer.hpp"

namespace verbs {

inline constexpr int kHost = -1;

/// Registered memory of the host or of a GPU.
class Region {
 public:
  /// @param place  kHost, or the number of a GPU
  Region(ibv_pd* pd, int place, size_t bytes) {
    if (place == kHost) {
      host_.resize(bytes);
    } else {
      gpu_.emplace(place, bytes);
    }
    address_ = place == kHost ? reinterpret_cast<uint64_t>(host_.data()) : gpu_->address();
    mr_.reset(ibv_reg_mr(pd, reinterpret_cast<void*>(address_), bytes, kAllAccess));
    if (mr_ == nullptr) throw std::runtime_error("the memory does not register");
  }

  uint8_t* data() { return gpu_ ? gpu_->data() : host_.data(); }
  uint64_t address() const { return address_; }
  uint32_t rkey() const { return mr_->rkey; }
  ibv_sge Sge(size_t offset, size_t bytes) const {
    return {address_ + offset, static_cast<uint32_t>(bytes), mr_->lkey};
  }
  void Free() { gpu_->Free(); }

 private:
  std::vector<uint8_t> host_;
  std::optional<GpuMemory> gpu_;
  uint64_t address_ = 0;
  Mr mr_;
};

inline const char* NameOf(int place) { return place == kHost ? "Host" : place == 0 ? "Gpu0" : "Gpu1"; }

}  // namespace verbs
