#include "pattern.hpp"

#include <algorithm>
#include <vector>

#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"

namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

/// Calls `work` for each piece of a range, with memory of the processor for it.
template <class Work>
void ForEachPiece(size_t bytes, const Work& work) {
  std::vector<std::byte> piece(std::min(bytes, kPieceBytes));
  for (size_t at = 0; at < bytes; at += piece.size())
    work(at, std::span(piece).first(std::min(piece.size(), bytes - at)));
}

}  // namespace

PatternMemory::PatternMemory(const hf3fs_iov& iov)
    : data_(reinterpret_cast<std::byte*>(iov.base)),
      is_gpu_(hf3fs_iov_is_gpu(&iov)),
      buffer_(warpverbs::host::WrapPointer(iov.base, iov.size)) {
  if (is_gpu_ && HasPatternKernels()) kernels_on_ = hf3fs_iov_gpu_device(&iov);
}

std::string PatternMemory::worker() const {
  if (kernels_on_) return "a kernel on cuda:" + std::to_string(*kernels_on_);
  return is_gpu_ ? "the processor, on copies by the driver, because this program was built without CUDA"
                 : "the processor";
}

void PatternMemory::Fill(size_t bytes, uint64_t seed) const {
  if (kernels_on_) return FillByKernel(*kernels_on_, data_, bytes, seed);
  ForEachPiece(bytes, [&](size_t at, std::span<std::byte> piece) {
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<std::byte>(PatternByte(seed, at + i));
    buffer_->CopyIn(at, piece);
  });
}

size_t PatternMemory::CountWrong(size_t bytes, uint64_t seed) const {
  if (kernels_on_) return CountWrongByKernel(*kernels_on_, data_, bytes, seed);
  size_t wrong = 0;
  ForEachPiece(bytes, [&](size_t at, std::span<std::byte> piece) {
    buffer_->CopyOut(at, piece);
    for (size_t i = 0; i < piece.size(); ++i)
      wrong += piece[i] == static_cast<std::byte>(PatternByte(seed, at + i)) ? 0 : 1;
  });
  return wrong;
}
