#pragma once

#include <filesystem>
#include <optional>
#include <string>

/// Ways from a file into a device's memory, and a load to measure each by.
namespace warpverbs::bench {

/// Reads of a file, many at a time.
struct Load {
  size_t bytes = 0;  ///< size of each read
  bool is_random = false;
  size_t in_flight = 1;
  double seconds = 1;
};

/// Where the file is, and where its contents are to go.
struct Setting {
  std::filesystem::path mount, file;
  size_t file_bytes = 0;
  std::optional<int> gpu;  ///< empty: memory of the host stands for a device's
  bool direct = false;     ///< past the page cache
};

/// Byte `index` of the file.
uint8_t ByteOfFile(uint64_t index);

// Each returns bytes a second.
//
// @errors  std::runtime_error: an I/O fails, or a byte that was read is wrong

/// Reads by the ring into the device's memory.
double MeasureDirect(const Setting& setting, const Load& load);

/// Reads by the ring into host memory, and copies that to the device.
double MeasureRingAndCopy(const Setting& setting, const Load& load);

/// Reads by pread() into host memory, and copies that to the device: a thread for each read in flight.
double MeasurePreadAndCopy(const Setting& setting, const Load& load);

bool HasFio();

/// Reads by fio with io_uring into host memory, and copies nothing.
double MeasureFio(const Setting& setting, const Load& load);

}  // namespace warpverbs::bench
