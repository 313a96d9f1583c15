#include "dma/device_memory.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "dma/copy.hpp"

namespace softhca {
namespace {

struct Entry {
  const DeviceRange* range;
  DeviceMemory* memory;
  uintptr_t start;
  uint64_t bytes;
};

/// Never destroyed: the engine may run until the process ends.
std::vector<Entry>& Entries() {
  static auto& entries = *new std::vector<Entry>;
  return entries;
}

}  // namespace

DeviceRange::DeviceRange(std::shared_ptr<DeviceMemory> memory, const uint8_t* start, uint64_t bytes)
    : memory_(std::move(memory)) {
  Entries().push_back({this, memory_.get(), reinterpret_cast<uintptr_t>(start), bytes});
  ++detail::device_ranges;
}

DeviceRange::~DeviceRange() {
  // A failed wait needs no handling: then nothing is in flight any more.
  (void)WaitForCopies();
  (void)memory_->Synchronize();
  std::erase_if(Entries(), [this](const Entry& entry) { return entry.range == this; });
  --detail::device_ranges;
}

DeviceMemory* detail::FindDevice(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto found = std::find_if(Entries().begin(), Entries().end(),
                                  [at](const Entry& entry) { return at - entry.start < entry.bytes; });
  return found == Entries().end() ? nullptr : found->memory;
}

void WaitForDevices() {
  for (const Entry& entry : Entries()) (void)entry.memory->Synchronize();
}

std::optional<uint32_t> LoadWord(const uint32_t& word) {
  if (DeviceMemory* const device = DeviceOf(&word)) {
    uint32_t value = 0;
    const bool there = device->Read(reinterpret_cast<uint8_t*>(&value),
                                    reinterpret_cast<const uint8_t*>(&word), sizeof value);
    return there ? std::optional(value) : std::nullopt;
  }
  return std::atomic_ref(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
}

}  // namespace softhca
