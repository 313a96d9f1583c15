#include <cstdio>
#include <stdexcept>
#include <string>

#include "memory/bounds.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

[[noreturn]] void Refuse(const std::string& range, const MemoryView& view) {
  char whole[64];
  std::snprintf(whole, sizeof whole, "%llu bytes at 0x%llx", static_cast<unsigned long long>(view.bytes),
                static_cast<unsigned long long>(view.addr));
  throw std::out_of_range("memory view: " + range + " are not within " + whole);
}

void CheckCut(uint64_t bytes, const char* end, const MemoryView& view) {
  if (bytes > view.bytes) Refuse(std::to_string(bytes) + " bytes at its " + end, view);
}

}  // namespace

bool MemoryView::Contains(uint64_t address, uint64_t range_bytes) const {
  return address >= addr && IsWithin(address - addr, range_bytes, bytes);
}

MemoryView MemoryView::Subrange(uint64_t offset, uint64_t part_bytes) const {
  if (!IsWithin(offset, part_bytes, bytes)) {
    Refuse(std::to_string(part_bytes) + " bytes at offset " + std::to_string(offset), *this);
  }
  return {.addr = addr + offset, .bytes = part_bytes, .lkey = lkey, .rkey = rkey, .access = access};
}

MemoryView MemoryView::SubrangeAt(const void* memory, uint64_t part_bytes) const {
  const auto address = reinterpret_cast<uint64_t>(memory);
  if (!Contains(address, part_bytes)) {
    char place[32];
    std::snprintf(place, sizeof place, "0x%llx", static_cast<unsigned long long>(address));
    Refuse(std::to_string(part_bytes) + " bytes at " + place, *this);
  }
  return Subrange(address - addr, part_bytes);
}

MemoryView MemoryView::Last(uint64_t part_bytes) const {
  CheckCut(part_bytes, "end", *this);
  return Subrange(bytes - part_bytes, part_bytes);
}

void MemoryView::Advance(uint64_t cut_bytes) {
  CheckCut(cut_bytes, "beginning", *this);
  addr += cut_bytes;
  bytes -= cut_bytes;
  cut_before += cut_bytes;
}

void MemoryView::Subtract(uint64_t cut_bytes) {
  CheckCut(cut_bytes, "end", *this);
  bytes -= cut_bytes;
  cut_behind += cut_bytes;
}

MemoryView MemoryView::TakeFirst(uint64_t part_bytes) {
  const MemoryView taken = First(part_bytes);
  Advance(part_bytes);
  return taken;
}

MemoryView MemoryView::TakeLast(uint64_t part_bytes) {
  const MemoryView taken = Last(part_bytes);
  Subtract(part_bytes);
  return taken;
}

void MemoryView::Reset() {
  addr -= cut_before;
  bytes += cut_before + cut_behind;
  cut_before = 0;
  cut_behind = 0;
}

}  // namespace warpverbs::inline v0_2::host
