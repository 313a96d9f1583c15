#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "observe/output_file.hpp"

namespace softhca {

using TraceArgs = std::initializer_list<std::pair<const char*, uint64_t>>;

/// A file of trace events that Perfetto and chrome://tracing read, on the monotonic clock that all processes
/// of a host share: the events of several files may be put into one.
///
/// Cut off at any event it can still be read: the format allows the closing bracket to be missing.
/// @source  "Trace Event Format", JSON array format
class TraceFile {
 public:
  /// @errors  std::runtime_error: the file cannot be written; a sentence
  explicit TraceFile(const std::string& file);

  /// Tracks are numbered from 1; 0 is the process as a whole.
  void NameTrack(uint32_t track, const std::string& name);

  /// Marks a moment.
  void Instant(uint32_t track, const std::string& name, TraceArgs args = {});
  /// Marks a moment to which flows can be bound.
  ///
  /// @return  the moment
  uint64_t Slice(uint32_t track, const std::string& name, TraceArgs args = {});
  /// An arrow's start ('s'), step ('t') or end ('f') at a slice.
  ///
  /// @param at_ns  of the slice
  void Flow(uint32_t track, char phase, uint64_t id, uint64_t at_ns);
  /// The begin ('b') or end ('e') of something that may overlap with others of its kind.
  void Async(uint32_t track, char phase, const std::string& name, uint64_t id, uint64_t at_ns,
             TraceArgs args);

  /// Writes what is pending, unless that was done a moment ago.
  void FlushNowAndThen();
  /// Completes the file; what comes later is lost.
  void Close();

 private:
  /// Later than any before.
  uint64_t NextNs();
  void Event(char phase, uint32_t track, const std::string& name, uint64_t at_ns, const std::string& more,
             TraceArgs args);
  void Flush();

  OutputFile file_;
  std::string pending_;
  bool empty_ = true;
  bool closed_ = false;
  uint64_t last_ns_ = 0;
  uint64_t flushed_ns_ = 0;
};

}  // namespace softhca
