#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace softhca {

/// A file that this process alone writes, for whoever looks at it afterwards.
///
/// What was appended survives the process, however it ends. Not thread-safe.
class OutputFile {
 public:
  /// Creates the file, or empties it.
  ///
  /// @param name  "%p" in it stands for the number of the process
  /// @errors  std::runtime_error: it cannot be opened, or another process writes it
  explicit OutputFile(const std::string& name);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Appends all of it, or, once the file takes no more, nothing for good: the first time says so.
  void Append(std::span<const uint8_t> bytes);

  const std::string& name() const { return name_; }

 private:
  void GiveUp(int error);

  std::string name_;
  int descriptor_;
  int64_t size_ = 0;
};

}  // namespace softhca
