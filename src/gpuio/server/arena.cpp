#include "gpuio/server/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

Arena::Arena(size_t bytes, int device, uint32_t max_nics)
    : bytes_(std::max(bytes / kChunkBytes, size_t{4}) * kChunkBytes),
      memory_(static_cast<uint8_t*>(
          mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  if (memory_ == MAP_FAILED) {
    throw host::Error::FromErrno("allocate", std::to_string(bytes_) + " bytes for data on its way", errno,
                                 "Choose less by --memory");
  }
  madvise(memory_, bytes_, MADV_HUGEPAGE);
  try {
    registration_.emplace(static_cast<void*>(memory_), bytes_, device,
                          transport::RdmaMemoryConfig{.max_nics = max_nics});
    for (size_t at = bytes_; at != 0; at -= kChunkBytes) free_.push_back(memory_ + at - kChunkBytes);
  } catch (...) {
    munmap(memory_, bytes_);
    throw;
  }
}

Arena::~Arena() {
  registration_.reset();
  munmap(memory_, bytes_);
}

uint8_t* Arena::Take() {
  uint8_t* const buffer = free_.back();  // the one used last: it may still be in the processor's cache
  free_.pop_back();
  return buffer;
}

}  // namespace warpverbs::inline v0_2::gpuio
