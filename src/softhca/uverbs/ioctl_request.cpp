#include "uverbs/ioctl_request.hpp"

#include <rdma/ib_user_ioctl_verbs.h>

#include <algorithm>

#include "uverbs/user_memory.hpp"

namespace softhca::uverbs {
namespace {

constexpr size_t kInline = sizeof(ib_uverbs_attr::data);  // inputs up to this size are in the attribute

}  // namespace

IoctlRequest::IoctlRequest(uint64_t address) : attributes_address_(address + sizeof(ib_uverbs_ioctl_hdr)) {
  ib_uverbs_ioctl_hdr header;
  CopyIn(&header, address, sizeof header);
  object_ = header.object_id;
  method_ = header.method_id;
  if (header.length != sizeof header + header.num_attrs * sizeof(ib_uverbs_attr) || header.length > 4096) {
    throw Errno(EINVAL, "the command's length does not fit its attributes");
  }
  if (header.reserved1 != 0 || header.reserved2 != 0) throw Errno(EPROTONOSUPPORT, "reserved fields are set");
  if (header.driver_id != RDMA_DRIVER_MLX5)
    throw Errno(EINVAL, "the command is for another driver than mlx5");
  attributes_.resize(header.num_attrs);
  CopyIn(attributes_.data(), attributes_address_, attributes_.size() * sizeof(ib_uverbs_attr));
}

void IoctlRequest::Check(std::span<const Attribute> known) const {
  for (const Attribute& attribute : known) {
    if (attribute.need == Attribute::Need::kRequired && !Has(attribute.id)) {
      throw Errno(EINVAL, "attribute " + std::to_string(attribute.id) + " is missing");
    }
  }
  for (const ib_uverbs_attr& attribute : attributes_) {
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const Attribute& candidate) {
      return candidate.need != Attribute::Need::kNone && candidate.id == attribute.attr_id;
    });
    if (!is_known && (attribute.flags & UVERBS_ATTR_F_MANDATORY) != 0) {
      throw Errno(EPROTONOSUPPORT, "attribute " + std::to_string(attribute.attr_id) + " is unknown");
    }
  }
}

const ib_uverbs_attr* IoctlRequest::Find(uint16_t id) const {
  const auto found = std::find_if(attributes_.begin(), attributes_.end(),
                                  [&](const auto& attr) { return attr.attr_id == id; });
  return found == attributes_.end() ? nullptr : &*found;
}

ib_uverbs_attr& IoctlRequest::Need(uint16_t id) {
  if (!Has(id)) throw Errno(EINVAL, "attribute " + std::to_string(id) + " is missing");
  return const_cast<ib_uverbs_attr&>(*Find(id));
}

std::vector<uint8_t> IoctlRequest::GetBytes(uint16_t id) const {
  const ib_uverbs_attr* const attribute = Find(id);
  if (attribute == nullptr) throw Errno(EINVAL, "attribute " + std::to_string(id) + " is missing");
  std::vector<uint8_t> bytes(attribute->len);
  if (bytes.size() > kInline) {
    CopyIn(bytes.data(), attribute->data, bytes.size());
  } else {
    std::copy_n(reinterpret_cast<const uint8_t*>(&attribute->data), bytes.size(), bytes.begin());
  }
  return bytes;
}

void IoctlRequest::CopyExtensible(std::span<const uint8_t> bytes, void* value, size_t size) {
  const size_t known = std::min(bytes.size(), size);
  std::copy_n(bytes.begin(), known, static_cast<uint8_t*>(value));
  const auto rest = bytes.subspan(known);
  if (std::any_of(rest.begin(), rest.end(), [](uint8_t byte) { return byte != 0; })) {
    throw Errno(EOPNOTSUPP, "the driver's input has unknown fields");
  }
}

void IoctlRequest::SetBytes(uint16_t id, std::span<const uint8_t> bytes) {
  if (!Has(id)) return;
  ib_uverbs_attr& attribute = Need(id);
  std::vector<uint8_t> padded(attribute.len);
  std::copy_n(bytes.begin(), std::min(padded.size(), bytes.size()), padded.begin());
  CopyOut(attribute.data, padded.data(), padded.size());
  attribute.flags |= UVERBS_ATTR_F_VALID_OUTPUT;
}

uint32_t IoctlRequest::Handle(uint16_t id) const {
  const ib_uverbs_attr* const attribute = Find(id);
  if (attribute == nullptr) throw Errno(EINVAL, "attribute " + std::to_string(id) + " is missing");
  return static_cast<uint32_t>(attribute->data);
}

void IoctlRequest::SetHandle(uint16_t id, uint32_t handle) { Need(id).data = handle; }

void IoctlRequest::WriteBack() const {
  CopyOut(attributes_address_, attributes_.data(), attributes_.size() * sizeof(ib_uverbs_attr));
}

}  // namespace softhca::uverbs
