#include <cstdlib>
#include <cstring>

#include "verbs/memory.hpp"

namespace verbs {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

Memory::Memory(size_t bytes)
    : bytes_(bytes),
      data_(static_cast<uint8_t*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage))) {
  address_ = reinterpret_cast<uint64_t>(data_);
  std::memset(data_, 0, bytes);
}

Memory::~Memory() { std::free(data_); }

}  // namespace verbs
