#include "gpuio/control/messages.hpp"

#include <climits>

#include "gpuio/control/names.hpp"
#include "gpuio/protocol/wire.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using Body = decltype(ControlRequest::body);

/// Begins each message.
struct Header {
  static constexpr uint32_t kMagic = 0x4f495657;  // "WVIO" in memory
  static constexpr uint16_t kVersion = 1;
  static constexpr uint16_t kReply = 0x8000;  // a request has its index in the variant

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint16_t kind = 0;
  uint32_t sequence = 0;

  static void Fields(auto& m, auto& wire) { wire(m.magic, m.version, m.kind, m.sequence); }
  bool IsOfThisVersion() const { return magic == kMagic && version == kVersion; }
};

bool IsLinkName(const std::string& name) { return LinkName::Parse(name).has_value(); }

bool IsInRange(const PublishRequest& body) { return IsLinkName(body.name); }
bool IsInRange(const AttachRequest& body) { return IsLinkName(body.name); }
bool IsInRange(const DetachRequest& body) { return IsLinkName(body.name); }
bool IsInRange(const OpenFileRequest& body) {
  return (body.reads || body.writes) && !body.path.empty() && body.path.size() < PATH_MAX &&
         body.path.find('\0') == std::string::npos;
}
bool IsInRange(const CloseFileRequest& body) { return body.reads || body.writes; }

/// Decodes the body that has this index in the variant.
template <size_t kIndex = 0>
bool DecodeBody(size_t index, protocol::Decoder& in, Body& body) {
  if constexpr (kIndex == std::variant_size_v<Body>) {
    return false;
  } else {
    if (index != kIndex) return DecodeBody<kIndex + 1>(index, in, body);
    auto& value = body.emplace<kIndex>();
    in(value);
    return in.Complete() && IsInRange(value);
  }
}

}  // namespace

std::vector<uint8_t> ControlRequest::Encode() const {
  std::vector<uint8_t> bytes;
  protocol::Encoder out(bytes);
  out(Header{.kind = static_cast<uint16_t>(body.index()), .sequence = sequence});
  std::visit([&](const auto& value) { out(value); }, body);
  return bytes;
}

std::optional<ControlRequest> ControlRequest::Decode(std::span<const uint8_t> bytes) {
  protocol::Decoder in(bytes);
  Header header;
  in(header);
  ControlRequest request{.sequence = header.sequence};
  if (!in.ok() || !header.IsOfThisVersion() || !DecodeBody(header.kind, in, request.body))
    return std::nullopt;
  return request;
}

std::vector<uint8_t> ControlReply::Encode() const {
  std::vector<uint8_t> bytes;
  protocol::Encoder out(bytes);
  out(Header{.kind = Header::kReply, .sequence = sequence}, error);
  return bytes;
}

std::optional<ControlReply> ControlReply::Decode(std::span<const uint8_t> bytes) {
  constexpr uint32_t kMaxError = 4095;  // of the kernel
  protocol::Decoder in(bytes);
  Header header;
  ControlReply reply;
  in(header, reply.error);
  reply.sequence = header.sequence;
  const bool valid = in.Complete() && header.IsOfThisVersion() && header.kind == Header::kReply;
  return valid && reply.error <= kMaxError ? std::optional(reply) : std::nullopt;
}

}  // namespace warpverbs::inline v0_2::gpuio
