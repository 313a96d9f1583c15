#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "gpuio/protocol/file_types.hpp"
#include "warpverbs/transport/memory.hpp"
#include "warpverbs/version.hpp"

/// Requests of a client to a file server, and their replies.
///
/// Both travel in frames on a TCP connection: FrameHeader, then the message's fields as wire.hpp writes them.
/// A reply has the type and the id of its request, and an errno in front of its fields, which are left out
/// unless that is 0. Requests run in parallel: replies come in any order. Payload moves by RDMA, never here.
namespace warpverbs::inline v0_2::gpuio::protocol {

inline constexpr uint64_t kMagic = 0x31304f4955504756;  // "VGPUIO01" in memory
inline constexpr uint32_t kVersion = 1;                 ///< both sides must have the same
inline constexpr size_t kMaxFrameBytes = size_t{64} << 10;

/// Ranges of holes that one reply lists at most. The server writes the zeros of further holes.
inline constexpr size_t kMaxHoles = 2048;

/// Where the zeros of holes, offsets and lengths end: that of off_t.
inline constexpr uint64_t kMaxOffset = INT64_MAX;

struct FrameHeader {
  static constexpr size_t kBytes = 16;

  uint32_t bytes = 0;  ///< size of the whole frame
  uint16_t type = 0;
  uint16_t zero = 0;
  uint64_t id = 0;  ///< number that the client chooses, unique among its requests under way

  static void Fields(auto& m, auto& wire) { wire(m.bytes, m.type, m.zero, m.id); }
};

/// The client's first frame.
struct Hello {
  static constexpr uint16_t kType = 1;

  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint64_t key = 0;   ///< random number, which the server returns
  std::string url{};  ///< URL of the client's transport

  /// Fields that stay in their places in all versions.
  static void FieldsOfAllVersions(auto& m, auto& wire) { wire(m.magic, m.version, m.key); }
  static void Fields(auto& m, auto& wire) { wire(m.magic, m.version, m.key, m.url); }
};

/// The server's answer to Hello. It closes the connection after one with a refusal.
struct Welcome {
  static constexpr uint16_t kType = 2;

  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint64_t key = 0;
  std::string refusal{};      ///< reason why the server refuses the client; empty: it does not
  std::string url{};          ///< URL of the server's transport
  uint32_t max_requests = 0;  ///< requests that may be under way at a time
  bool read_only = false;

  /// Fields that stay in their places in all versions.
  static void FieldsOfAllVersions(auto& m, auto& wire) { wire(m.magic, m.version, m.key, m.refusal); }
  static void Fields(auto& m, auto& wire) {
    wire(m.magic, m.version, m.key, m.refusal, m.url, m.max_requests, m.read_only);
  }
};

/// Flags of OpenRequest.
enum OpenFlag : uint32_t {
  kOpenRead = 1,
  kOpenWrite = 2,
  kOpenCreate = 4,
  kOpenExclusive = 8,
  kOpenTruncate = 16,
  kOpenDirectory = 32,
  kOpenNoFollow = 64,
  kAllOpenFlags = 127,
};

struct OpenReply {
  uint64_t handle = 0;  ///< valid on this connection
  Attributes attributes{};

  static void Fields(auto& m, auto& wire) { wire(m.handle, m.attributes); }
};

struct OpenRequest {
  static constexpr uint16_t kType = 3;
  using Reply = OpenReply;

  std::string path{};
  uint32_t flags = 0;
  uint32_t mode = 0;

  static void Fields(auto& m, auto& wire) { wire(m.path, m.flags, m.mode); }
};

/// A reply that has nothing but its errno.
struct EmptyReply {
  static void Fields(auto&, auto& wire) { wire(); }
};

struct CloseRequest {
  static constexpr uint16_t kType = 4;
  using Reply = EmptyReply;

  uint64_t handle = 0;

  static void Fields(auto& m, auto& wire) { wire(m.handle); }
};

struct ReadReply {
  uint64_t bytes = 0;
  std::vector<Range> holes{};

  static void Fields(auto& m, auto& wire) { wire(m.bytes, m.holes); }
};

/// Asks the server to write a part of a file to the client's memory.
struct ReadRequest {
  static constexpr uint16_t kType = 5;
  using Reply = ReadReply;

  uint64_t handle = 0;
  uint64_t offset = 0;
  transport::RdmaRemoteBuffer buffer{};
  Holes holes = Holes::kList;

  static void Fields(auto& m, auto& wire) { wire(m.handle, m.offset, m.buffer, m.holes); }
};

struct WriteReply {
  uint64_t bytes = 0;

  static void Fields(auto& m, auto& wire) { wire(m.bytes); }
};

/// Asks the server to read the client's memory and write it to a file.
struct WriteRequest {
  static constexpr uint16_t kType = 6;
  using Reply = WriteReply;

  uint64_t handle = 0;
  uint64_t offset = 0;
  transport::RdmaRemoteBuffer buffer{};

  static void Fields(auto& m, auto& wire) { wire(m.handle, m.offset, m.buffer); }
};

struct SyncRequest {
  static constexpr uint16_t kType = 7;
  using Reply = EmptyReply;

  uint64_t handle = 0;
  bool data_only = false;

  static void Fields(auto& m, auto& wire) { wire(m.handle, m.data_only); }
};

struct PunchHoleRequest {
  static constexpr uint16_t kType = 8;
  using Reply = EmptyReply;

  uint64_t handle = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  static void Fields(auto& m, auto& wire) { wire(m.handle, m.offset, m.bytes); }
};

struct AttributesReply {
  Attributes attributes{};

  static void Fields(auto& m, auto& wire) { wire(m.attributes); }
};

struct GetAttributesRequest {
  static constexpr uint16_t kType = 9;
  using Reply = AttributesReply;

  uint64_t handle = 0;  ///< 0: the path says which file
  std::string path{};

  static void Fields(auto& m, auto& wire) { wire(m.handle, m.path); }
};

struct ChangeAttributesRequest {
  static constexpr uint16_t kType = 10;
  using Reply = AttributesReply;

  uint64_t handle = 0;  ///< 0: the path says which file
  std::string path{};
  AttributeChanges changes{};

  static void Fields(auto& m, auto& wire) { wire(m.handle, m.path, m.changes); }
};

struct ListReply {
  std::vector<DirectoryEntry> entries{};
  uint64_t next = 0;  ///< where the next request starts
  bool end = false;   ///< nothing is left

  static void Fields(auto& m, auto& wire) { wire(m.entries, m.next, m.end); }
};

struct ListRequest {
  static constexpr uint16_t kType = 11;
  using Reply = ListReply;

  std::string path{};
  uint64_t start = 0;  ///< 0: the first entry

  static void Fields(auto& m, auto& wire) { wire(m.path, m.start); }
};

struct MakeDirectoryRequest {
  static constexpr uint16_t kType = 12;
  using Reply = EmptyReply;

  std::string path{};
  uint32_t mode = 0;

  static void Fields(auto& m, auto& wire) { wire(m.path, m.mode); }
};

struct RemoveRequest {
  static constexpr uint16_t kType = 13;
  using Reply = EmptyReply;

  std::string path{};
  bool directory = false;

  static void Fields(auto& m, auto& wire) { wire(m.path, m.directory); }
};

struct RenameRequest {
  static constexpr uint16_t kType = 14;
  using Reply = EmptyReply;

  std::string from{}, to{};
  uint32_t flags = 0;  ///< flags of renameat2(2): RENAME_NOREPLACE or RENAME_EXCHANGE

  static void Fields(auto& m, auto& wire) { wire(m.from, m.to, m.flags); }
};

struct HardLinkRequest {
  static constexpr uint16_t kType = 15;
  using Reply = EmptyReply;

  std::string from{}, to{};

  static void Fields(auto& m, auto& wire) { wire(m.from, m.to); }
};

struct ReadLinkReply {
  std::string target{};

  static void Fields(auto& m, auto& wire) { wire(m.target); }
};

struct ReadLinkRequest {
  static constexpr uint16_t kType = 16;
  using Reply = ReadLinkReply;

  std::string path{};

  static void Fields(auto& m, auto& wire) { wire(m.path); }
};

struct SpaceReply {
  Space space{};

  static void Fields(auto& m, auto& wire) { wire(m.space); }
};

struct SpaceRequest {
  static constexpr uint16_t kType = 17;
  using Reply = SpaceReply;

  static void Fields(auto&, auto& wire) { wire(); }
};

using Request =
    std::variant<OpenRequest, CloseRequest, ReadRequest, WriteRequest, SyncRequest, PunchHoleRequest,
                 GetAttributesRequest, ChangeAttributesRequest, ListRequest, MakeDirectoryRequest,
                 RemoveRequest, RenameRequest, HardLinkRequest, ReadLinkRequest, SpaceRequest>;

using Reply = std::variant<EmptyReply, OpenReply, ReadReply, WriteReply, AttributesReply, ListReply,
                           ReadLinkReply, SpaceReply>;

/// Returns a whole frame.
std::vector<uint8_t> EncodeFrame(uint64_t id, const Request& request);
std::vector<uint8_t> EncodeFrame(const Hello& hello);
std::vector<uint8_t> EncodeFrame(const Welcome& welcome);

/// Returns the frame of a reply.
///
/// @param error  an errno value; 0: the fields of `reply` follow
std::vector<uint8_t> EncodeReply(uint64_t id, uint16_t type, int error, const Reply& reply);

/// Decodes the header of a frame.
///
/// @return  empty: the bytes are not a header, or the frame is too long
std::optional<FrameHeader> DecodeHeader(std::span<const uint8_t, FrameHeader::kBytes> bytes);

/// Decodes what follows a header, and checks all that can be checked without the file: paths, flags, names,
/// and that ranges of files and of memory do not overflow.
///
/// @return  empty: the bytes are not a request
std::optional<Request> DecodeRequest(uint16_t type, std::span<const uint8_t> body);

/// Decodes a greeting. Of one of another version or magic, it has the fields of all versions only.
///
/// @return  empty: the bytes are not a greeting
std::optional<Hello> DecodeHello(std::span<const uint8_t> body);
std::optional<Welcome> DecodeWelcome(std::span<const uint8_t> body);

/// The answer of a server to a request.
struct Answer {
  int error = 0;  ///< an errno value
  Reply reply{};  ///< a reply of the request's type, unless there is an error
};

/// Decodes the reply to a request, and checks that it can be one: no more bytes than were asked for, holes in
/// ascending order within them, names without "/".
///
/// @return  empty: the bytes are not a reply to that request
std::optional<Answer> DecodeReply(const Request& request, std::span<const uint8_t> body);

uint16_t TypeOf(const Request& request);

}  // namespace warpverbs::inline v0_2::gpuio::protocol
