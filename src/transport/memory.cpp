#include "warpverbs/transport/memory.hpp"

#include <stdexcept>
#include <utility>

#include "host/connect/byte_stream.hpp"
#include "registration.hpp"
#include "text_format.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

constexpr TextFormat kKeyFormat{.kind = "key", .version = 1, .object = "the access key of memory"};

}  // namespace

std::string AccessKey::ToText() const {
  host::ByteWriter bytes;
  bytes.Put(1, nics);
  for (size_t i = 0; i < nics; ++i) bytes.Put(4, rkeys[i]);
  return kKeyFormat.Encode(bytes.bytes());
}

AccessKey AccessKey::FromText(std::string_view text) {
  const std::vector<uint8_t> bytes = kKeyFormat.Decode(text);
  host::ByteReader reader(bytes);
  AccessKey key{.nics = static_cast<uint8_t>(reader.Get(1))};
  const bool in_range = key.nics != 0 && key.nics <= kMaxNics;
  for (size_t i = 0; in_range && i < key.nics; ++i) key.rkeys[i] = static_cast<uint32_t>(reader.Get(4));
  if (!in_range || !reader.ok() || !reader.rest().empty()) {
    throw host::Error("read", kKeyFormat.object, "its length does not fit its number of keys",
                      "Pass what the peer's ToText() returned");
  }
  return key;
}

template <class Regions>
void Registration::Keys::Take(const Regions& of) {
  remote.nics = static_cast<uint8_t>(nics->devices().size());
  for (size_t i = 0; i < remote.nics; ++i) {
    const host::MemoryView view = of.View(i);
    lkeys[i] = view.lkey;
    remote.rkeys[i] = view.rkey;
  }
}

Registration::Keys::Keys(void* data, size_t size, int device, uint32_t max_nics, bool writable)
    : nics(Nics::Of(device, max_nics)), lease(nics->cache(writable).Register(data, size)) {
  Take(*lease);
}

Registration::Keys::Keys(const host::Buffer& buffer, int device, uint32_t max_nics)
    : nics(Nics::Of(device, max_nics)) {
  std::vector<const host::Device*> devices;
  for (const auto& opened : nics->devices()) devices.push_back(opened.get());
  Take(regions.emplace(devices, buffer, host::Access{.remote_read = true, .remote_write = true}));
}

Registration::Registration(void* data, size_t size, int device, uint32_t max_nics, bool writable)
    : data_(data),
      size_(size),
      device_(device),
      writable_(writable),
      keys_(std::make_shared<const Keys>(data, size, device, max_nics, writable)) {}

Registration::Registration(const host::Buffer& buffer, int device, uint32_t max_nics)
    : data_(buffer.data()),
      size_(buffer.size()),
      device_(device),
      writable_(true),
      keys_(std::make_shared<const Keys>(buffer, device, max_nics)) {}

/// Memory that the NIC still uses stays registered, but leaves the cache: its address may soon belong to
/// other memory. In a forked child both are the parent's: the loop's thread may have left the cache locked.
Registration::~Registration() {
  if (!keys_->owner.IsThisOne()) {
    host::Abandon(keys_);
    return;
  }
  if (keys_->lease && keys_.use_count() > 1) keys_->nics->cache(writable_).Invalidate(data_, size_);
}

bool Registration::Reused() const { return keys_->lease && keys_->lease->reused(); }
const AccessKey& Registration::RemoteKey() const { return keys_->remote; }

uint32_t Registration::LocalKey(size_t nic) const {
  if (nic >= keys_->remote.nics) {
    throw std::out_of_range("the memory is registered on " + std::to_string(keys_->remote.nics) +
                            " NICs, so NIC " + std::to_string(nic) + " does not exist: count from 0");
  }
  return keys_->lkeys[nic];
}

size_t Registration::OffsetOf(const void* ptr) const {
  return reinterpret_cast<uintptr_t>(ptr) - reinterpret_cast<uintptr_t>(data_);
}

bool Registration::Contains(const void* ptr, size_t length) const {
  const size_t offset = OffsetOf(ptr);
  return offset <= size_ && length <= size_ - offset;
}

void* Registration::At(size_t offset, size_t length) const {
  if (offset > size_ || length > size_ - offset) {
    throw std::out_of_range(std::to_string(length) + " bytes at offset " + std::to_string(offset) +
                            " are not within the " + std::to_string(size_) +
                            " bytes of the registered memory");
  }
  return static_cast<std::byte*>(data_) + offset;
}

RdmaMemory::RdmaMemory(void* buffer, size_t length, int device, const RdmaMemoryConfig& config)
    : registration_(new Registration(buffer, length, device, config.max_nics, true)) {}
RdmaMemory::RdmaMemory(const void* buffer, size_t length, int device, const RdmaMemoryConfig& config)
    : registration_(new Registration(const_cast<void*>(buffer), length, device, config.max_nics, false)) {}
RdmaMemory::RdmaMemory(const host::Buffer& buffer, int device, const RdmaMemoryConfig& config)
    : registration_(new Registration(buffer, device, config.max_nics)) {}
RdmaMemory::RdmaMemory(RdmaMemory&&) noexcept = default;
RdmaMemory& RdmaMemory::operator=(RdmaMemory&&) noexcept = default;
RdmaMemory::~RdmaMemory() = default;

const Registration& RdmaMemory::registration() const {
  if (!registration_)
    throw std::invalid_argument("this RdmaMemory was moved from: use the RdmaMemory it was moved to");
  return *registration_;
}

RdmaMemory::View RdmaMemory::CreateView() const { return CreateView(0, size()); }
RdmaMemory::View RdmaMemory::CreateView(size_t offset, size_t length) const {
  void* const start = registration().At(offset, length);
  return {registration_.get(), start, length};
}

RdmaMemory::MutableView RdmaMemory::CreateMutableView() const { return CreateMutableView(0, size()); }
RdmaMemory::MutableView RdmaMemory::CreateMutableView(size_t offset, size_t length) const {
  void* const start = registration().At(offset, length);
  if (!registration().writable_) {
    throw std::invalid_argument(
        "this RdmaMemory was made of a pointer to const: make another one of a pointer to mutable memory");
  }
  return {registration_.get(), start, length};
}

}  // namespace warpverbs::inline v0_2::transport
