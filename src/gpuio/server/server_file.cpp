#include "gpuio/server/server_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "gpuio/protocol/messages.hpp"

namespace warpverbs::inline v0_2::gpuio {

int64_t ServerFile::Size() const {
  struct stat status;
  if (fstat(fd_.get(), &status) != 0) return -errno;
  return S_ISREG(status.st_mode) ? status.st_size : -EISDIR;
}

ServerFile::Extent ServerFile::ExtentAt(uint64_t offset, uint64_t holes_made) {
  constexpr uint64_t kNoEnd = protocol::kMaxOffset;
  const auto now = std::chrono::steady_clock::now();
  if (offset >= data_begin_ && offset < data_end_ && holes_made == known_holes_made_ &&
      now - known_at_ < std::chrono::seconds(1))
    return {false, data_end_};
  const auto at = static_cast<off_t>(offset);
  const off_t data = lseek(fd_.get(), at, SEEK_DATA);
  if (data < 0 && errno == ENXIO) return {true, kNoEnd};  // nothing but a hole up to the end
  if (data > at) return {true, static_cast<uint64_t>(data)};
  const off_t hole = data < 0 ? -1 : lseek(fd_.get(), at, SEEK_HOLE);
  data_begin_ = offset;
  data_end_ = hole < 0 ? kNoEnd : static_cast<uint64_t>(hole);  // a file system without holes
  known_at_ = now;
  known_holes_made_ = holes_made;
  return {false, data_end_};
}

}  // namespace warpverbs::inline v0_2::gpuio
