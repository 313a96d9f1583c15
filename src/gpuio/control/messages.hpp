#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "warpverbs/host/shared_memory.hpp"
#include "warpverbs/version.hpp"

/// Messages of an application to the daemon of its node, over a Unix socket of packets. Each request has one
/// reply.
namespace warpverbs::inline v0_2::gpuio {

/// Describes memory of a GPU, whose link is about to be attached. A dma-buf goes along if `memory` is one.
struct PublishRequest {
  std::string name{};
  std::array<uint8_t, host::SharedMemoryInfo::kBytes> memory{};  ///< result of ToBytes()
  /// What other processes open the allocation by. An import of it then finds what is published here.
  std::optional<std::array<uint8_t, host::SharedMemoryInfo::kHandleBytes>> ipc_handle{};
  uint64_t offset = 0;  ///< in the allocation that the handle opens

  static void Fields(auto& m, auto& wire) { wire(m.name, m.memory, m.ipc_handle, m.offset); }
  friend bool operator==(const PublishRequest&, const PublishRequest&) = default;
};

/// Asks the daemon to use what a link names: to register its memory, or to serve its ring. The reply comes
/// when that is done.
struct AttachRequest {
  std::string name{};

  static void Fields(auto& m, auto& wire) { wire(m.name); }
  friend bool operator==(const AttachRequest&, const AttachRequest&) = default;
};

/// Asks the daemon to let go of what a link names. The reply is EBUSY while NICs may still access its memory:
/// then ask again. So others' requests never wait for I/O.
struct DetachRequest {
  std::string name{};

  static void Fields(auto& m, auto& wire) { wire(m.name); }
  friend bool operator==(const DetachRequest&, const DetachRequest&) = default;
};

/// Registers a file for the rings of this application.
struct OpenFileRequest {
  uint64_t inode = 0;
  std::string path{};  ///< relative to the mount
  bool reads = false, writes = false;

  static void Fields(auto& m, auto& wire) { wire(m.inode, m.path, m.reads, m.writes); }
  friend bool operator==(const OpenFileRequest&, const OpenFileRequest&) = default;
};

/// Takes one OpenFileRequest back.
struct CloseFileRequest {
  uint64_t inode = 0;
  bool reads = false, writes = false;

  static void Fields(auto& m, auto& wire) { wire(m.inode, m.reads, m.writes); }
  friend bool operator==(const CloseFileRequest&, const CloseFileRequest&) = default;
};

struct ControlRequest {
  uint32_t sequence = 0;  ///< comes back in the reply
  std::variant<PublishRequest, AttachRequest, DetachRequest, OpenFileRequest, CloseFileRequest> body{};

  std::vector<uint8_t> Encode() const;

  /// @return  empty: no request of this version, or a field is out of range
  static std::optional<ControlRequest> Decode(std::span<const uint8_t> bytes);

  friend bool operator==(const ControlRequest&, const ControlRequest&) = default;
};

struct ControlReply {
  uint32_t sequence = 0;
  uint32_t error = 0;  ///< errno value

  std::vector<uint8_t> Encode() const;

  /// @return  empty: no reply of this version
  static std::optional<ControlReply> Decode(std::span<const uint8_t> bytes);

  friend bool operator==(const ControlReply&, const ControlReply&) = default;
};

inline constexpr size_t kMaxControlBytes = 8192;

}  // namespace warpverbs::inline v0_2::gpuio
