#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "wire/media/descriptor.hpp"

namespace softhca {

/// A file, pipe or standard error to which an observer writes records.
///
/// Appended bytes survive the process, however it ends. A reader that is too slow costs 100 ms once; then
/// whole records are dropped until it reads again. Not thread-safe.
class OutputFile {
 public:
  /// Creates the file, or empties it. Waits up to 2 s for the reader of a named pipe.
  ///
  /// @param name     path; "%p" is replaced by the process id; empty: standard error
  /// @param records  what the file consists of, for messages: "lines"
  /// @errors  std::runtime_error: the file cannot be opened, or another process writes it
  OutputFile(const std::string& name, const char* records);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Appends whole records, all of them or none. After the first failed write, which is reported on standard
  /// error, appends nothing any more.
  ///
  /// @return  false if they are lost, because their reader is too slow
  bool Append(std::span<const uint8_t> bytes, uint64_t records = 1);

  /// Ends the file: gives its reader 2 s for what is left, and reports on standard error how many records are
  /// missing. Later ones are lost.
  void End();

 private:
  /// @return  false if the reader is too slow
  bool Write(std::span<const uint8_t> bytes);
  void GiveUp(int error);

  std::string name_;
  const char* records_;
  Descriptor own_reader_{};        ///< held for a pipe that had no reader yet
  int descriptor_;                 ///< -1: the file has ended
  bool behind_ = false;            ///< the reader was too slow for the latest record
  std::vector<uint8_t> unsent_{};  ///< rest of records of which the reader has taken a part
  int64_t size_ = 0;
  uint64_t appended_ = 0, missing_ = 0;  ///< records
};

}  // namespace softhca
