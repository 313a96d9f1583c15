#include "gpuio/protocol/messages.hpp"

#include <linux/fs.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "gpuio/protocol/path.hpp"
#include "gpuio/protocol/wire.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

template <class T, class U>
concept Is = std::is_same_v<std::remove_const_t<T>, U>;

}  // namespace

// Types of other headers name their fields here.
template <Is<Attributes> T>
void Fields(T& m, auto& wire) {
  wire(m.device, m.inode, m.bytes, m.blocks, m.mode, m.links, m.uid, m.gid, m.accessed, m.modified,
       m.changed);
}
template <Is<Range> T>
void Fields(T& m, auto& wire) {
  wire(m.offset, m.bytes);
}
template <Is<DirectoryEntry> T>
void Fields(T& m, auto& wire) {
  wire(m.name, m.inode, m.type);
}
template <Is<AttributeChanges> T>
void Fields(T& m, auto& wire) {
  wire(m.bytes, m.mode, m.uid, m.gid, m.accessed, m.modified);
}
template <Is<Space> T>
void Fields(T& m, auto& wire) {
  wire(m.block_bytes, m.blocks, m.free_blocks, m.available_blocks, m.files, m.free_files, m.longest_name);
}

}  // namespace warpverbs::inline v0_2::gpuio

namespace warpverbs::inline v0_2::transport {

// Not in an unnamed namespace, where no lookup by argument finds them.
static void Fields(const RdmaRemoteBuffer& m, gpuio::protocol::Encoder& wire) {
  wire(reinterpret_cast<uint64_t>(m.ptr), uint64_t{m.len}, m.access_key.nics);
  for (size_t i = 0; i < m.access_key.nics; ++i) wire(m.access_key.rkeys[i]);
}

static void Fields(RdmaRemoteBuffer& m, gpuio::protocol::Decoder& wire) {
  uint64_t address = 0, bytes = 0;
  wire(address, bytes, m.access_key.nics);
  if (m.access_key.nics == 0 || m.access_key.nics > AccessKey::kMaxNics) return wire.Refuse();
  for (size_t i = 0; i < m.access_key.nics; ++i) wire(m.access_key.rkeys[i]);
  if (bytes > gpuio::protocol::kMaxOffset || address > UINT64_MAX - bytes) wire.Refuse();
  m.ptr = reinterpret_cast<void*>(address);
  m.len = bytes;
}

}  // namespace warpverbs::inline v0_2::transport

namespace warpverbs::inline v0_2::gpuio::protocol {
namespace {

template <class... Messages>
std::vector<uint8_t> Frame(uint16_t type, uint64_t id, const Messages&... messages) {
  std::vector<uint8_t> bytes;
  Encoder encoder(bytes);
  encoder(FrameHeader{.type = type, .id = id}, messages...);
  const auto size = static_cast<uint32_t>(bytes.size());
  for (size_t i = 0; i < sizeof(size); ++i) bytes[i] = static_cast<uint8_t>(size >> (8 * i));
  return bytes;
}

template <class Message>
std::optional<Message> Decode(std::span<const uint8_t> body) {
  Decoder decoder(body);
  Message message;
  decoder(message);
  return decoder.Complete() ? std::optional(std::move(message)) : std::nullopt;
}

/// Decodes a message whose first fields are those of all versions.
template <class Message>
std::optional<Message> DecodeGreeting(std::span<const uint8_t> body) {
  Decoder decoder(body);
  Message message;
  Message::FieldsOfAllVersions(message, decoder);
  if (!decoder.ok()) return std::nullopt;
  return message.magic == kMagic && message.version == kVersion ? Decode<Message>(body) : message;
}

bool FitsFile(uint64_t offset, uint64_t bytes) { return bytes <= kMaxOffset && offset <= kMaxOffset - bytes; }

/// A time, or what utimensat(2) takes in its place.
bool IsTime(const std::optional<timespec>& time) {
  constexpr int64_t kNow = (1 << 30) - 1;  // UTIME_NOW
  return !time || (time->tv_nsec >= 0 && time->tv_nsec <= 999'999'999) || time->tv_nsec == kNow;
}

// IsValid() says whether a request makes sense, whatever files exist.
bool IsValid(const OpenRequest& m) {
  const bool writes = (m.flags & kOpenWrite) != 0;
  return IsPlainPath(m.path) && (m.flags & ~uint32_t{kAllOpenFlags}) == 0 &&
         (m.flags & (kOpenRead | kOpenWrite)) != 0 && (writes || (m.flags & kOpenTruncate) == 0) &&
         (m.mode & ~07777U) == 0;
}
bool IsValid(const CloseRequest&) { return true; }
bool IsValid(const ReadRequest& m) {
  return FitsFile(m.offset, m.buffer.len) && m.holes <= Holes::kListExactly;
}
bool IsValid(const WriteRequest& m) { return FitsFile(m.offset, m.buffer.len); }
bool IsValid(const SyncRequest&) { return true; }
bool IsValid(const PunchHoleRequest& m) { return m.bytes != 0 && FitsFile(m.offset, m.bytes); }
bool IsValid(const GetAttributesRequest& m) {
  return IsPlainPath(m.path) && (m.handle == 0 || m.path.empty());
}
bool IsValid(const ChangeAttributesRequest& m) {
  return IsPlainPath(m.path) && (m.handle == 0 || m.path.empty()) &&
         m.changes.bytes.value_or(0) <= kMaxOffset && (m.changes.mode.value_or(0) & ~07777U) == 0 &&
         IsTime(m.changes.accessed) && IsTime(m.changes.modified);
}
bool IsValid(const ListRequest& m) { return IsPlainPath(m.path) && m.start <= kMaxOffset; }
bool IsValid(const MakeDirectoryRequest& m) {
  return IsPlainPath(m.path) && !m.path.empty() && (m.mode & ~07777U) == 0;
}
bool IsValid(const RemoveRequest& m) { return IsPlainPath(m.path) && !m.path.empty(); }
bool IsValid(const RenameRequest& m) {
  return IsPlainPath(m.from) && !m.from.empty() && IsPlainPath(m.to) && !m.to.empty() &&
         (m.flags == 0 || m.flags == RENAME_NOREPLACE || m.flags == RENAME_EXCHANGE);
}
bool IsValid(const HardLinkRequest& m) {
  return IsPlainPath(m.from) && !m.from.empty() && IsPlainPath(m.to) && !m.to.empty();
}
bool IsValid(const ReadLinkRequest& m) { return IsPlainPath(m.path); }
bool IsValid(const SpaceRequest&) { return true; }

template <class Message>
bool TryDecode(uint16_t type, std::span<const uint8_t> body, std::optional<Request>& request) {
  if (type != Message::kType) return false;
  auto message = Decode<Message>(body);
  if (message && IsValid(*message)) request = std::move(*message);
  return true;
}

template <class... Messages>
std::optional<Request> DecodeOneOf(uint16_t type, std::span<const uint8_t> body,
                                   const std::variant<Messages...>*) {
  std::optional<Request> request;
  static_cast<void>((TryDecode<Messages>(type, body, request) || ...));
  return request;
}

// Answers() says whether a reply can be one to its request.
template <class Message, class ReplyMessage>
bool Answers(const Message&, const ReplyMessage&) {
  return true;
}
bool Answers(const ReadRequest& request, const ReadReply& reply) {
  if (reply.bytes > request.buffer.len || reply.holes.size() > kMaxHoles) return false;
  if (request.holes == Holes::kSend && !reply.holes.empty()) return false;
  uint64_t end = 0;
  for (const Range& hole : reply.holes) {
    if (hole.offset < end || hole.offset > reply.bytes || hole.bytes > reply.bytes - hole.offset)
      return false;
    end = hole.offset + hole.bytes;
  }
  return true;
}
bool Answers(const WriteRequest& request, const WriteReply& reply) {
  return reply.bytes <= request.buffer.len;
}
bool Answers(const OpenRequest&, const OpenReply& reply) { return reply.handle != 0; }
bool Answers(const ListRequest&, const ListReply& reply) {
  return std::all_of(reply.entries.begin(), reply.entries.end(), [](const DirectoryEntry& entry) {
    return !entry.name.empty() && entry.name.find('/') == entry.name.npos && IsPlainPath(entry.name);
  });
}

}  // namespace

std::vector<uint8_t> EncodeFrame(uint64_t id, const Request& request) {
  return std::visit([&]<class M>(const M& message) { return Frame(M::kType, id, message); }, request);
}
std::vector<uint8_t> EncodeFrame(const Hello& hello) { return Frame(Hello::kType, 0, hello); }
std::vector<uint8_t> EncodeFrame(const Welcome& welcome) { return Frame(Welcome::kType, 0, welcome); }

std::vector<uint8_t> EncodeReply(uint64_t id, uint16_t type, int error, const Reply& reply) {
  if (error != 0) return Frame(type, id, static_cast<int32_t>(error));
  return std::visit([&](const auto& message) { return Frame(type, id, int32_t{0}, message); }, reply);
}

std::optional<FrameHeader> DecodeHeader(std::span<const uint8_t, FrameHeader::kBytes> bytes) {
  const auto header = Decode<FrameHeader>(bytes);
  if (!header || header->zero != 0 || header->bytes < FrameHeader::kBytes || header->bytes > kMaxFrameBytes)
    return std::nullopt;
  return header;
}

std::optional<Request> DecodeRequest(uint16_t type, std::span<const uint8_t> body) {
  return DecodeOneOf(type, body, static_cast<const Request*>(nullptr));
}
std::optional<Hello> DecodeHello(std::span<const uint8_t> body) { return DecodeGreeting<Hello>(body); }
std::optional<Welcome> DecodeWelcome(std::span<const uint8_t> body) { return DecodeGreeting<Welcome>(body); }

std::optional<Answer> DecodeReply(const Request& request, std::span<const uint8_t> body) {
  return std::visit(
      [&]<class M>(const M& message) -> std::optional<Answer> {
        Decoder decoder(body);
        int32_t error = 0;
        decoder(error);
        if (error < 0 || error > 4095) return std::nullopt;
        if (error != 0) return decoder.Complete() ? std::optional(Answer{error, {}}) : std::nullopt;
        typename M::Reply reply;
        decoder(reply);
        if (!decoder.Complete() || !Answers(message, reply)) return std::nullopt;
        return Answer{0, std::move(reply)};
      },
      request);
}

uint16_t TypeOf(const Request& request) {
  return std::visit([]<class M>(const M&) { return M::kType; }, request);
}

}  // namespace warpverbs::inline v0_2::gpuio::protocol
