#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/output_file.hpp"

namespace softhca {

/// Writes frames to a file that tshark and Wireshark read: whole Ethernet frames with nanosecond stamps.
///
/// Called under the engine's lock.
class PcapWriter {
 public:
  /// @param file  "%p" in it stands for the number of the process
  /// @errors  std::runtime_error: it cannot be opened, or another process writes it
  explicit PcapWriter(const std::string& file);
  PcapWriter(const PcapWriter&) = delete;
  PcapWriter& operator=(const PcapWriter&) = delete;
  ~PcapWriter();

  /// Takes a copy of a frame that is on the wire from now on.
  void Write(std::span<const uint8_t> frame);

  /// Puts into the file what it lacks. To be called before frames leave: then the file knows of each frame
  /// that a peer got, even if the process is killed.
  void Flush();

 private:
  template <class T>
  void Put(const T& header);

  OutputFile file_;
  std::vector<uint8_t> pending_;  ///< whole records
};

}  // namespace softhca
