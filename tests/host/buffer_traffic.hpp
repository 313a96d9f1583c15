#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "link.hpp"
#include "warpverbs/host/buffer.hpp"

namespace warpverbs::host {

/// Registers two buffers and writes all of the first to the second, over the NIC and back.
inline ::testing::AssertionResult WriteBuffer(const Device& device, const Buffer& from, const Buffer& to) {
  const MemoryRegion source = from.Register(device);
  const MemoryRegion target = to.Register(device, {.remote_write = true});
  if (source.View().addr != reinterpret_cast<uint64_t>(from.data())) {
    return ::testing::AssertionFailure() << "a NIC is told another address than the buffer's";
  }
  Link link(device);
  link.Connect();
  Queue queue(link.a.View());
  const device::Posted posted =
      queue.Post(device::Write({target.View().addr, mlx5::ToBe32(target.View().rkey)},
                               {source.View().addr, source.View().bytes, mlx5::ToBe32(source.View().lkey)}),
                 Within());
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, Within()) : posted.status;
  queue.Save();
  if (!status.ok()) return ::testing::AssertionFailure() << "status " << static_cast<int>(status.code);
  return ::testing::AssertionSuccess();
}

/// Bytes of which no two near each other are alike.
inline std::vector<std::byte> Pattern(size_t bytes, unsigned seed) {
  std::vector<std::byte> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>((i * 7 + i / 251 + seed) & 0xff);
  return pattern;
}

inline std::vector<std::byte> Contents(const Buffer& buffer) {
  std::vector<std::byte> contents(buffer.size());
  buffer.CopyOut(0, contents);
  return contents;
}

}  // namespace warpverbs::host
