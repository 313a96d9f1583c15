#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace softhca {

/// A file that only this process writes.
///
/// Appended bytes survive the process, however it ends. Not thread-safe.
class OutputFile {
 public:
  /// Creates the file, or empties it.
  ///
  /// @param name  path; "%p" is replaced by the process id
  /// @errors  std::runtime_error: the file cannot be opened, or another process writes it
  explicit OutputFile(const std::string& name);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Appends all bytes. After the first failed write, which is reported on standard error, appends nothing
  /// any more.
  void Append(std::span<const uint8_t> bytes);

  const std::string& name() const { return name_; }

 private:
  void GiveUp(int error);

  std::string name_;
  int descriptor_;
  int64_t size_ = 0;
};

}  // namespace softhca
