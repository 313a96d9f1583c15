#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "host/endpoint/link.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::inline v0_2::host {

/// Writes a whole view to another one through the NIC.
///
/// @param device  NIC that has keys of both views
inline ::testing::AssertionResult WriteView(const Device& device, const MemoryView& from,
                                            const MemoryView& to) {
  Link link(device);
  link.Connect();
  Queue queue(link.a.View());
  const device::Posted posted = queue.Post(device::Write(to.Remote(), from.Local()), Within());
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, Within()) : posted.status;
  if (!status.ok()) return ::testing::AssertionFailure() << "status " << static_cast<int>(status.code);
  return ::testing::AssertionSuccess();
}

/// Registers two buffers and writes the whole first one to the second.
inline ::testing::AssertionResult WriteBuffer(const Device& device, const Buffer& from, const Buffer& to) {
  const MemoryRegion source = from.Register(device);
  const MemoryRegion target = to.Register(device, {.remote_write = true});
  if (source.View().addr != reinterpret_cast<uint64_t>(from.data())) {
    return ::testing::AssertionFailure() << "a NIC is told another address than the buffer's";
  }
  return WriteView(device, source.View(), target.View());
}

/// Returns bytes that differ from their neighbours.
inline std::vector<std::byte> Pattern(size_t bytes, unsigned seed) {
  constexpr size_t kPeriod = 251 * 256;
  std::vector<std::byte> pattern(bytes);
  const size_t first = std::min(bytes, kPeriod);
  for (size_t i = 0; i < first; ++i) pattern[i] = static_cast<std::byte>((i * 7 + i / 251 + seed) & 0xff);
  for (size_t i = first; i < bytes; i += kPeriod)
    std::memcpy(&pattern[i], pattern.data(), std::min(kPeriod, bytes - i));
  return pattern;
}

/// Compares as operator== does, which compares bytes one by one in code that is not optimised.
inline bool Same(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

inline std::vector<std::byte> Contents(const Buffer& buffer) {
  std::vector<std::byte> contents(buffer.size());
  buffer.CopyOut(0, contents);
  return contents;
}

}  // namespace warpverbs::inline v0_2::host
