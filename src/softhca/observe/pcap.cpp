#include "observe/pcap.hpp"

#include <chrono>
#include <cstring>

namespace softhca {
namespace {

constexpr size_t kPcapBufferBytes = 1 << 18;
constexpr uint32_t kNanosecondStamps = 0xa1b23c4d;

/// Returns the type of a capture's records. Wireshark does not read LINKTYPE_INFINIBAND, so frames of
/// InfiniBand are in records of Endace's format.
///
/// @source  draft-ietf-opsawg-pcaplinktype, LINKTYPE_ETHERNET and LINKTYPE_ERF
constexpr uint32_t LinkType(mlx5::PortType link) { return link == mlx5::PortType::kInfiniBand ? 197 : 1; }

/// @source  draft-ietf-opsawg-pcap-03, section 4
struct FileHeader {
  uint32_t magic = kNanosecondStamps;
  uint16_t major = 2, minor = 4;
  uint32_t reserved[2] = {0, 0};
  uint32_t longest_frame = 65535;
  uint32_t link_type = 0;
};
static_assert(sizeof(FileHeader) == 24);

/// @source  draft-ietf-opsawg-pcap-03, section 5
struct RecordHeader {
  uint32_t seconds;
  uint32_t nanoseconds;
  uint32_t captured_bytes;
  uint32_t frame_bytes;
};
static_assert(sizeof(RecordHeader) == 16);

/// The header before a frame in an extensible record (ERF).
///
/// @source  Endace, EDM11-01, ERF types; Wireshark 4.0, wiretap/erf.h
struct ErfHeader {
  uint32_t fraction;  ///< part of the second, in units of 2^-32
  uint32_t seconds;
  uint8_t type = 21;  ///< InfiniBand
  uint8_t flags = 4;  ///< the records' lengths vary
  mlx5::Be16 record_bytes;
  mlx5::Be16 lost{};
  mlx5::Be16 frame_bytes;
};
static_assert(sizeof(ErfHeader) == 16);

/// Returns how many bytes precede each frame in its record.
constexpr uint32_t PrefixBytes(mlx5::PortType link) {
  return link == mlx5::PortType::kInfiniBand ? sizeof(ErfHeader) : 0;
}

}  // namespace

template <class T>
void PcapWriter::Put(const T& header) {
  const size_t at = pending_.size();
  pending_.resize(at + sizeof header);
  std::memcpy(&pending_[at], &header, sizeof header);
}

PcapWriter::PcapWriter(const std::string& file, mlx5::PortType link) : file_(file, "frames"), link_(link) {
  pending_.reserve(kPcapBufferBytes);
  Put(FileHeader{.link_type = LinkType(link)});
  Flush();
}

PcapWriter::~PcapWriter() { End(); }

void PcapWriter::Write(std::span<const uint8_t> frame) {
  using std::chrono::nanoseconds, std::chrono::seconds;
  const nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  const auto whole = std::chrono::duration_cast<seconds>(now);
  const auto second = static_cast<uint32_t>(whole.count());
  const auto nanosecond = static_cast<uint32_t>((now - whole).count());
  const auto bytes = static_cast<uint32_t>(PrefixBytes(link_) + frame.size());
  if (pending_.size() + sizeof(RecordHeader) + bytes > kPcapBufferBytes) Flush();
  Put(RecordHeader{second, nanosecond, bytes, bytes});
  if (link_ == mlx5::PortType::kInfiniBand) {
    Put(ErfHeader{.fraction = static_cast<uint32_t>((uint64_t{nanosecond} << 32) / std::nano::den),
                  .seconds = second,
                  .record_bytes = mlx5::ToBe16(static_cast<uint16_t>(bytes)),
                  .frame_bytes = mlx5::ToBe16(static_cast<uint16_t>(frame.size()))});
  }
  pending_.insert(pending_.end(), frame.begin(), frame.end());
  ++pending_frames_;
}

void PcapWriter::Flush() {
  file_.Append(pending_, pending_frames_);
  pending_.clear();
  pending_frames_ = 0;
}

void PcapWriter::End() {
  Flush();
  file_.End();
}

}  // namespace softhca
