#include "observe/output_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace softhca {
namespace {

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

/// @errors  std::runtime_error: the file cannot be opened, or another process writes it
int OpenExclusively(const std::string& name) {
  const int descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
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

}  // namespace

OutputFile::OutputFile(const std::string& name)
    : name_(ExpandProcessId(name)), descriptor_(OpenExclusively(name_)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::Append(std::span<const uint8_t> bytes) {
  const size_t size = bytes.size();
  while (descriptor_ >= 0 && !bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      GiveUp(errno);
    }
  }
  size_ += static_cast<int64_t>(size);
}

void OutputFile::GiveUp(int error) {
  // A partial record would look like a damaged file.
  const bool whole = ftruncate(descriptor_, size_) == 0;
  close(descriptor_);
  descriptor_ = -1;
  std::fprintf(stderr, "softhca: %s ends here%s, the rest is lost: %s\n", name_.c_str(),
               whole ? "" : " within a record", std::strerror(error));
}

}  // namespace softhca
