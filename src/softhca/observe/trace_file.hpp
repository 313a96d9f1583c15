#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "observe/output_file.hpp"

namespace softhca {

using TraceArgs = std::initializer_list<std::pair<const char*, uint64_t>>;

/// A file of trace events for Perfetto and chrome://tracing. Times are of the monotonic clock, which all
/// processes of a host share, so the events of several files can be merged.
///
/// The file stays readable if it ends after any event: the format allows the closing bracket to be missing.
///
/// @source  "Trace Event Format", JSON array format
class TraceFile {
 public:
  /// @errors  std::runtime_error: the file cannot be written
  explicit TraceFile(const std::string& file);

  /// Names a track. Tracks are numbered from 1; 0 is the process as a whole.
  void NameTrack(uint32_t track, const std::string& name);

  /// Marks a moment.
  void Instant(uint32_t track, const std::string& name, TraceArgs args = {});
  /// Marks a moment that flows can be bound to.
  ///
  /// @return  the moment
  uint64_t Slice(uint32_t track, const std::string& name, TraceArgs args = {});
  /// Adds an arrow's start ('s'), step ('t') or end ('f') at a slice.
  ///
  /// @param at_ns  time of the slice
  void Flow(uint32_t track, char phase, uint64_t id, uint64_t at_ns);
  /// Adds the begin ('b') or end ('e') of an event that may overlap with others of its kind.
  void Async(uint32_t track, char phase, const std::string& name, uint64_t id, uint64_t at_ns,
             TraceArgs args);

  /// Writes pending events, unless that was done a moment ago.
  void FlushIfDue();
  /// Completes the file; later events are lost.
  void Close();

 private:
  /// Returns the current time, but later than that of every event before.
  uint64_t NextNs();
  void Event(char phase, uint32_t track, const std::string& name, uint64_t at_ns, const std::string& more,
             TraceArgs args);
  void Flush();

  OutputFile file_;
  std::string pending_;
  uint64_t pending_events_ = 0;
  bool empty_ = true;
  bool closed_ = false;
  uint64_t last_ns_ = 0;
  uint64_t flushed_ns_ = 0;
};

}  // namespace softhca
