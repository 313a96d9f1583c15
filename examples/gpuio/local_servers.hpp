// warpverbs-filed and warpverbs-gpuiod on this machine, as children of an example.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Lets SIGINT, SIGTERM and SIGHUP end waits by an exception, so that destructors tidy up.
void CatchSignals();

/// @errors  std::runtime_error: a signal has come
void ThrowIfInterrupted();

/// A folder in $TMPDIR or /tmp, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A program that runs until this process ends it. It ends with this process, too, however that ends.
class Child {
 public:
  /// @pre     this process has one thread; that thread outlives this
  /// @errors  host::Error: it cannot be started
  explicit Child(std::vector<std::string> command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits until the program has printed a line with a prefix.
  ///
  /// @return  rest of the line
  /// @errors  std::runtime_error: the program ended, took a minute, or a signal has come
  std::string AwaitLine(const std::string& prefix);

  /// Ends the program.
  ///
  /// @return  all that it printed
  std::string Stop();

 private:
  std::string Output() const;
  bool HasEnded();  ///< sets `status_` if so

  std::string name_;
  int output_ = -1;  ///< file without a name
  pid_t pid_ = -1;   ///< -1: has ended
  int status_ = 0;   ///< status that waitpid() reports
};

/// Removes the control folder of a mount, unless it was there before.
class ControlFolderRemover {
 public:
  explicit ControlFolderRemover(const std::filesystem::path& mount);
  ~ControlFolderRemover();
  ControlFolderRemover(const ControlFolderRemover&) = delete;
  ControlFolderRemover& operator=(const ControlFolderRemover&) = delete;

 private:
  std::filesystem::path folder_;
  bool was_there_;
};

/// What the server and the daemon have counted, in bytes.
struct Counters {
  uint64_t written_to_memory = 0;    ///< read from files, and moved by RDMA WRITE
  uint64_t fetched_from_memory = 0;  ///< moved by RDMA READ, and written to files
  uint64_t zeroed = 0;               ///< holes of files, zeroed by the daemon
  uint64_t failures = 0;             ///< I/Os that failed
};

/// A server of a folder, and a daemon that makes that folder a mount.
class LocalServers {
 public:
  /// @param folder         exists
  /// @param filed_options  further options of the server
  /// @pre                  as Child
  /// @errors  std::runtime_error: one of them does not start; the text has its reason
  explicit LocalServers(const std::filesystem::path& folder, std::vector<std::string> filed_options = {});

  /// Describes how the server does I/O, for example "io_uring with registered buffers; direct I/O".
  const std::string& disk() const { return disk_; }
  const std::string& port() const { return port_; }

  /// Ends both.
  Counters Stop();

 private:
  ControlFolderRemover control_folder_;  // last to go
  Child filed_;
  std::string disk_, port_;
  Child gpuiod_;
};
