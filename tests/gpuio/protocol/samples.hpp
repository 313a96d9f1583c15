#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <vector>

#include "gpuio/protocol/messages.hpp"

namespace warpverbs::inline v0_2::gpuio::protocol {

/// A valid request of each type.
inline std::vector<Request> SampleRequests() {
  const transport::RdmaRemoteBuffer buffer{
      reinterpret_cast<void*>(0x7f0012345000), {.nics = 2, .rkeys = {0x1234, 0x89abcdef}}, 1 << 20};
  return {OpenRequest{"folder/file", kOpenRead | kOpenWrite | kOpenCreate, 0640},
          CloseRequest{7},
          ReadRequest{7, 4096, buffer},
          WriteRequest{0xffffffffffffffff, 12345, buffer},
          SyncRequest{7, true},
          PunchHoleRequest{7, 0, 4096},
          GetAttributesRequest{0, "a"},
          ChangeAttributesRequest{.path = "a",
                                  .changes = {.bytes = 5,
                                              .mode = 0600,
                                              .uid = 1,
                                              .gid = {},
                                              .accessed = timespec{1, 2},
                                              .modified = timespec{0, UTIME_NOW}}},
          ListRequest{"", 99},
          MakeDirectoryRequest{"a/b", 0755},
          RemoveRequest{"a/b", true},
          RenameRequest{"a", "b", 1},
          HardLinkRequest{"a", "b"},
          ReadLinkRequest{"a"},
          SpaceRequest{}};
}

}  // namespace warpverbs::inline v0_2::gpuio::protocol
