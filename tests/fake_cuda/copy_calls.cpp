// Copies and fills on streams.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "driver.hpp"
#include "settings.hpp"
#include "stream.hpp"

using namespace fake_cuda;

namespace {

/// An end of a copy.
struct End {
  Address address;
  bool on_gpu;

  std::byte* Reach(const char* function, size_t bytes) const {
    return on_gpu ? ReachRange(function, address, bytes) : reinterpret_cast<std::byte*>(address);
  }
  bool Gone() const { return on_gpu && IsGone(address); }
};

End Unified(Address address) {
  const Driver& driver = TheDriver();
  return {address, std::any_of(std::begin(driver.memory), std::end(driver.memory),
                               [&](const auto& memory) { return memory && memory->Covers(address); })};
}

template <class Word>
bool Aligned(const std::byte* to, const std::byte* from) {
  return (reinterpret_cast<Address>(to) | reinterpret_cast<Address>(from)) % sizeof(Word) == 0;
}

/// Copies aligned words whole and in order, as a GPU appears to do to an observer of its memory.
template <class Word>
void CopyWord(std::byte* to, std::byte* from) {
  const Word word = std::atomic_ref(*reinterpret_cast<Word*>(from)).load(std::memory_order_acquire);
  std::atomic_ref(*reinterpret_cast<Word*>(to)).store(word, std::memory_order_release);
}

void CopyWords(std::byte* to, std::byte* from, size_t bytes) {
  for (; bytes >= 8 && Aligned<uint64_t>(to, from); to += 8, from += 8, bytes -= 8) {
    CopyWord<uint64_t>(to, from);
  }
  if (bytes == 4 && Aligned<uint32_t>(to, from)) return CopyWord<uint32_t>(to, from);
  std::memcpy(to, from, bytes);
}

int CopyLater(const char* function, const End& to, const End& from, size_t bytes, CUstream_st* stream) {
  {
    const std::lock_guard lock(TheDriver().mutex);
    if (to.Gone() || from.Gone()) return kInvalidValue;
    to.Reach(function, bytes);
    from.Reach(function, bytes);
  }
  stream->Do([=] {
    const std::lock_guard lock(TheDriver().mutex);
    CopyWords(to.Reach(function, bytes), from.Reach(function, bytes), bytes);
  });
  return kSuccess;
}

/// Aborts unless an address is in memory of the context's GPU.
void CheckGpu(const char* function, Address address, const CUctx_st* context) {
  const std::lock_guard lock(TheDriver().mutex);
  const Range* const range = TheDriver().Find(address);
  if (range != nullptr && range->gpu != context->gpu) Abort(function, "the memory is another GPU's");
}

/// Aborts on overlapping ranges: the driver does not define the order of such a copy.
void CheckApart(const char* function, Address one, Address other, size_t bytes) {
  if (std::max(one, other) - std::min(one, other) < bytes) Abort(function, "the ranges overlap");
}

}  // namespace

extern "C" {

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  return CopyLater(__func__, {to, true}, {reinterpret_cast<Address>(from), false}, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  return CopyLater(__func__, {reinterpret_cast<Address>(to), false}, {from, true}, bytes, stream);
}

int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  CheckGpu(__func__, to, stream->context);
  CheckGpu(__func__, from, stream->context);
  CheckApart(__func__, to, from, bytes);
  return CopyLater(__func__, {to, true}, {from, true}, bytes, stream);
}

int cuMemcpyPeerAsync(Address to, CUctx_st* to_context, Address from, CUctx_st* from_context, size_t bytes,
                      CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  CheckGpu(__func__, to, to_context);
  CheckGpu(__func__, from, from_context);
  CheckApart(__func__, to, from, bytes);
  return CopyLater(__func__, {to, true}, {from, true}, bytes, stream);
}

int cuMemcpyAsync(Address to, Address from, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  return CopyLater(__func__, Unified(to), Unified(from), bytes, stream);
}

int cuMemsetD8Async(Address at, unsigned char value, size_t bytes, CUstream_st* stream) {
  if (const int failure = Failure(__func__)) return failure;
  CheckStream(__func__, stream);
  const char* const function = __func__;
  stream->Do([=] {
    const std::lock_guard lock(TheDriver().mutex);
    std::memset(ReachRange(function, at, bytes), value, bytes);
  });
  return kSuccess;
}

}  // extern "C"
