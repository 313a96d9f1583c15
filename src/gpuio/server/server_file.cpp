#include "gpuio/server/server_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace warpverbs::inline v0_2::gpuio {

ServerFile::Map ServerFile::MapPart(uint64_t begin, uint64_t end, size_t max_holes) const {
  struct stat status;
  if (fstat(fd(), &status) != 0) return {.error = errno};
  if (!S_ISREG(status.st_mode)) return {.error = EISDIR};
  Map map{.bytes = static_cast<uint64_t>(status.st_size)};
  end = std::min(end, map.bytes);
  size_t holes = 0;
  for (uint64_t at = begin; at < end;) {
    const off_t data = lseek(fd(), static_cast<off_t>(at), SEEK_DATA);
    // ENXIO: nothing but a hole up to the end. Other errors: the file system knows no holes.
    const uint64_t data_begin = data >= 0 ? static_cast<uint64_t>(data) : errno == ENXIO ? end : at;
    if (data_begin > at) {
      if (holes++ == max_holes) break;
      map.extents.push_back({true, data_begin});
      at = data_begin;
      continue;
    }
    const off_t hole = lseek(fd(), static_cast<off_t>(at), SEEK_HOLE);
    const uint64_t data_end = hole > static_cast<off_t>(at) ? static_cast<uint64_t>(hole) : map.bytes;
    if (data_end - at > map.data_end - map.data_begin) map.data_begin = at, map.data_end = data_end;
    map.extents.push_back({false, data_end});
    at = data_end;
  }
  return map;
}

void ServerFile::Remember(const Map& map, uint64_t holes_made) {
  data_begin_ = map.data_begin;
  data_end_ = map.data_end;
  known_holes_made_ = holes_made;
  known_at_ = std::chrono::steady_clock::now();
}

bool ServerFile::IsKnownData(uint64_t begin, uint64_t end, uint64_t holes_made) const {
  return begin >= data_begin_ && end <= data_end_ && holes_made == known_holes_made_ &&
         std::chrono::steady_clock::now() - known_at_ < std::chrono::seconds(1);
}

}  // namespace warpverbs::inline v0_2::gpuio
