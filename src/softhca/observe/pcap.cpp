#include "observe/pcap.hpp"

#include <chrono>
#include <cstring>

namespace softhca {
namespace {

constexpr size_t kPcapBufferBytes = 1 << 18;
constexpr uint32_t kNanosecondStamps = 0xa1b23c4d;
constexpr uint32_t kEthernet = 1;

/// @source  draft-ietf-opsawg-pcap-03, section 4
struct FileHeader {
  uint32_t magic = kNanosecondStamps;
  uint16_t major = 2, minor = 4;
  uint32_t reserved[2] = {0, 0};
  uint32_t longest_frame = 65535;
  uint32_t link_type = kEthernet;
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

}  // namespace

template <class T>
void PcapWriter::Put(const T& header) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&header);
  pending_.insert(pending_.end(), bytes, bytes + sizeof header);
}

PcapWriter::PcapWriter(const std::string& file) : file_(file, "frames") {
  pending_.reserve(kPcapBufferBytes);
  Put(FileHeader{});
  Flush();
}

PcapWriter::~PcapWriter() { End(); }

void PcapWriter::Write(std::span<const uint8_t> frame) {
  using std::chrono::nanoseconds, std::chrono::seconds;
  const nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  const auto whole = std::chrono::duration_cast<seconds>(now);
  const auto bytes = static_cast<uint32_t>(frame.size());
  if (pending_.size() + sizeof(RecordHeader) + bytes > kPcapBufferBytes) Flush();
  Put(RecordHeader{static_cast<uint32_t>(whole.count()), static_cast<uint32_t>((now - whole).count()), bytes,
                   bytes});
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
