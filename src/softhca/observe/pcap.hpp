#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/observer.hpp"
#include "observe/output_file.hpp"

namespace softhca {

/// Writes frames to a file for tshark and Wireshark: whole frames of one link layer with nanosecond
/// timestamps.
///
/// Called under the engine's lock.
class PcapWriter {
 public:
  /// @param file  path; "%p" is replaced by the process id
  /// @errors  std::runtime_error: the file cannot be opened, or another process writes it
  explicit PcapWriter(const std::string& file, mlx5::PortType link = mlx5::PortType::kEthernet);
  PcapWriter(const PcapWriter&) = delete;
  PcapWriter& operator=(const PcapWriter&) = delete;
  ~PcapWriter();

  /// Copies a frame, with the current time as its timestamp.
  void Write(std::span<const uint8_t> frame);

  /// Writes all pending frames to the file. Call it before frames leave: then the file has each frame that a
  /// peer received, even if the process is killed.
  void Flush();

  /// Writes all pending frames, and reports on standard error how many are missing. Later ones are lost.
  void End();

  mlx5::PortType link() const { return link_; }

 private:
  template <class T>
  void Put(const T& header);

  OutputFile file_;
  mlx5::PortType link_;
  std::vector<uint8_t> pending_;  ///< whole records
  uint64_t pending_frames_ = 0;
};

/// Ends a capture when the program ends.
class CaptureEnd : public Observer {
 public:
  explicit CaptureEnd(std::shared_ptr<PcapWriter> writer) : writer_(std::move(writer)) {}

  void OnEnd(std::span<const std::unique_ptr<Hca>>) override { writer_->End(); }

 private:
  std::shared_ptr<PcapWriter> writer_;
};

}  // namespace softhca
