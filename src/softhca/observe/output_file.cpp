#include "observe/output_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "observe/patient_write.hpp"

namespace softhca {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string ExpandProcessId(std::string name) {
  const std::string process = std::to_string(getpid());
  for (size_t at = name.find("%p"); at != std::string::npos; at = name.find("%p", at + process.size())) {
    name.replace(at, 2, process);
  }
  return name;
}

[[noreturn]] void Refuse(int descriptor, const std::string& why) {
  close(descriptor);
  throw std::runtime_error(why);
}

constexpr milliseconds kRecordTimeout{100};
constexpr milliseconds kReaderTimeout{2000};  // for a reader to open the pipe, and to read its end

/// Opens a file. The reader of a named pipe may come later: `reader` then keeps the pipe open.
int Open(const std::string& name, Descriptor& reader) {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  const auto end = steady_clock::now() + kReaderTimeout;
  for (;;) {
    const int descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | kFlags, 0666);
    if (descriptor >= 0 || errno != ENXIO || reader) return descriptor;  // ENXIO: a pipe without a reader
    if (steady_clock::now() < end) {
      poll(nullptr, 0, 10);
    } else {
      reader = Descriptor(open(name.c_str(), O_RDONLY | kFlags));
      if (!reader) return -1;
    }
  }
}

/// @errors  std::runtime_error: the file cannot be opened, or another process writes it
int OpenExclusively(const std::string& name, Descriptor& reader) {
  const int descriptor = Open(name, reader);
  if (descriptor < 0) {
    throw std::runtime_error("cannot open " + name + " for writing: " + std::strerror(errno));
  }
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    Refuse(descriptor, "another process writes " + name + "; put %p in the name for a file per process");
  }
  if (ftruncate(descriptor, 0) != 0 && errno != EINVAL) {  // EINVAL: a pipe or a terminal
    Refuse(descriptor, "cannot empty " + name + ": " + std::strerror(errno));
  }
  return descriptor;
}

/// Returns the bytes of a pipe that have no reader any more; 0 for other files.
int CountUnread(int descriptor) {
  int unread = 0;
  pollfd file{descriptor, POLLOUT, 0};
  const bool has_no_reader = poll(&file, 1, 0) > 0 && (file.revents & POLLERR) != 0;
  if (has_no_reader) ioctl(descriptor, FIONREAD, &unread);
  return unread;
}

}  // namespace

OutputFile::OutputFile(const std::string& name, const char* records)
    : name_(name.empty() ? "standard error" : ExpandProcessId(name)),
      records_(records),
      descriptor_(name.empty() ? STDERR_FILENO : OpenExclusively(name_, own_reader_)) {}

OutputFile::~OutputFile() { End(); }

bool OutputFile::Append(std::span<const uint8_t> bytes, uint64_t records) {
  if (descriptor_ < 0) return true;  // reported
  appended_ += records;
  const bool taken = Write(bytes);
  if (!taken) missing_ += records;
  return taken;
}

bool OutputFile::Write(std::span<const uint8_t> bytes) {
  const milliseconds timeout = behind_ ? milliseconds(0) : kRecordTimeout;
  int error = 0;
  unsent_.erase(unsent_.begin(),
                unsent_.begin() + static_cast<ptrdiff_t>(WriteFor(timeout, descriptor_, unsent_, error)));
  behind_ = !unsent_.empty();
  if (behind_ && error == EAGAIN) return false;
  const size_t written = error != 0 ? 0 : WriteFor(timeout, descriptor_, bytes, error);
  behind_ = error == EAGAIN;
  if (behind_ && written != 0) unsent_.assign(bytes.begin() + static_cast<ptrdiff_t>(written), bytes.end());
  if (error != 0 && !behind_) GiveUp(error);
  if (error == 0) size_ += static_cast<int64_t>(bytes.size());
  return !behind_ || written != 0;
}

void OutputFile::GiveUp(int error) {
  unsent_.clear();
  if (descriptor_ == STDERR_FILENO) return;  // it is closed: the line is lost
  // A partial record would look like a damaged file.
  const bool whole = ftruncate(descriptor_, size_) == 0;
  close(std::exchange(descriptor_, -1));
  PrintError(name_ + " ends here" + (whole ? "" : " within a record") +
             ", the rest is lost: " + std::strerror(error));
}

void OutputFile::End() {
  if (descriptor_ < 0) return;
  int error = 0;
  const size_t left = unsent_.size() - WriteFor(kReaderTimeout, descriptor_, unsent_, error);
  own_reader_ = Descriptor();
  int unread = 0;
  if (descriptor_ != STDERR_FILENO) {
    unread = CountUnread(descriptor_);
    close(descriptor_);
  }
  descriptor_ = -1;
  if (missing_ != 0) {
    PrintError(name_ + " lacks " + std::to_string(missing_) + " of " + std::to_string(appended_) + " " +
               records_ + ": its reader was too slow");
  }
  if (left != 0) PrintError(name_ + " ends within a record: its reader was too slow");
  if (unread != 0)
    PrintError(name_ + " has no reader: its last " + std::to_string(unread) + " bytes are lost");
}

}  // namespace softhca
