#include "queue/queue_memory.hpp"

#include <cstring>

#include "queue/queue_chunk.hpp"
#include "queue/queue_pool_impl.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;

constexpr size_t kSinkBytes = 8;

}  // namespace

QueueMemory::QueueMemory(const Device& device, const QueueMemoryConfig& config, QueuePool* pool) {
  if (pool == nullptr) {
    chunk_ = std::make_shared<QueueChunk>(device, config, kSinkBytes);
    offset_ = chunk_->start();
    data_ = chunk_->data() + offset_;
    size_ = chunk_->size() - offset_;
    return;
  }
  QueuePool::Impl::Queues queues = pool->impl().TakeQueues(device, config);
  chunk_ = std::move(queues.chunk);
  place_ = std::move(queues.place);
  data_ = place_.get();
  size_ = config.bytes;
  offset_ = static_cast<size_t>(data_ - chunk_->data());
  Fill(0, size_, 0);  // another endpoint may have used the place
}

bool QueueMemory::on_gpu() const { return chunk_->gpu_memory() != nullptr; }
uint32_t QueueMemory::umem_id() const { return chunk_->umem_id(); }
uint32_t QueueMemory::sink_lkey() const { return chunk_->sink_lkey(); }

std::string QueueMemory::Describe() const {
  if (!place_) return chunk_->Describe();
  return std::to_string(size_) + " bytes, in a pool's " + chunk_->Describe();
}

void QueueMemory::Write(size_t offset, const void* from, size_t bytes) {
  if (on_gpu()) {
    chunk_->gpu_memory()->CopyIn(offset_ + offset, {static_cast<const std::byte*>(from), bytes});
  } else {
    std::memcpy(data() + offset, from, bytes);
  }
}

void QueueMemory::Fill(size_t offset, size_t bytes, int value) {
  if (on_gpu()) {
    chunk_->gpu_memory()->CopyIn(offset_ + offset, std::vector(bytes, static_cast<std::byte>(value)));
  } else {
    std::memset(data() + offset, value, bytes);
  }
}

void QueueMemory::Store(size_t offset, uint64_t value) {
  if (on_gpu()) {
    Write(offset, &value, sizeof value);
  } else {
    Cpu::Store(reinterpret_cast<uint64_t*>(data() + offset), value);
  }
}

uint64_t QueueMemory::Load(size_t offset) const {
  if (!on_gpu()) return Cpu::Load(reinterpret_cast<const uint64_t*>(data() + offset));
  uint64_t value = 0;
  chunk_->gpu_memory()->CopyOut(offset_ + offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

const std::byte* QueueMemory::Read(size_t offset, size_t bytes, std::vector<std::byte>& copy) const {
  if (!on_gpu()) return data() + offset;
  copy.resize(bytes);
  chunk_->gpu_memory()->CopyOut(offset_ + offset, copy);
  return copy.data();
}

}  // namespace warpverbs::inline v0_2::host
