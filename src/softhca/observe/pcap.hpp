#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/output_file.hpp"

namespace softhca {

/// Writes frames to a file for tshark and Wireshark: whole Ethernet frames with nanosecond timestamps.
///
/// Called under the engine's lock.
class PcapWriter {
 public:
  /// @param file  path; "%p" is replaced by the process id
  /// @errors  std::runtime_error: the file cannot be opened, or another process writes it
  explicit PcapWriter(const std::string& file);
  PcapWriter(const PcapWriter&) = delete;
  PcapWriter& operator=(const PcapWriter&) = delete;
  ~PcapWriter();

  /// Copies a frame, with the current time as its timestamp.
  void Write(std::span<const uint8_t> frame);

  /// Writes all pending frames to the file. Call it before frames leave: then the file has each frame that a
  /// peer received, even if the process is killed.
  void Flush();

 private:
  template <class T>
  void Put(const T& header);

  OutputFile file_;
  std::vector<uint8_t> pending_;  ///< whole records
};

}  // namespace softhca
