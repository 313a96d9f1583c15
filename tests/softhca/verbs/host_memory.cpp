#include <sys/mman.h>

#include <stdexcept>

#include "verbs/memory.hpp"

namespace verbs {

struct Memory::Owner {
  explicit Owner(size_t size)
      : bytes(size), pages(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (pages == MAP_FAILED) throw std::runtime_error("no memory");
  }
  ~Owner() { munmap(pages, bytes); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  size_t bytes;
  void* pages;
};

Memory::Memory(size_t bytes) : bytes_(bytes), owner_(new Owner(bytes)) {
  address_ = reinterpret_cast<uint64_t>(owner_->pages);
  data_ = static_cast<uint8_t*>(owner_->pages);
}

Memory::~Memory() = default;

}  // namespace verbs
