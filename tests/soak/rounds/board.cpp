#include "soak/rounds/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <system_error>

namespace soak {

BoardFile BoardFile::Create(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const int error = file < 0 ? errno : posix_fallocate(file, 0, sizeof(Board));
  if (error != 0) {
    if (file >= 0) close(file);
    throw std::system_error(error, std::generic_category(), "cannot create " + path);
  }
  return BoardFile(file);
}

BoardFile BoardFile::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + path);
  return BoardFile(file);
}

BoardFile::BoardFile(int file) {
  void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  if (memory == MAP_FAILED) throw std::system_error(error, std::generic_category(), "cannot map a board");
  board_ = static_cast<Board*>(memory);  // all its members begin as zeros
}

BoardFile::~BoardFile() {
  if (board_ != nullptr) munmap(board_, sizeof(Board));
}

const char* ToString(Tally tally) {
  constexpr const char* kNames[] = {"lives",
                                    "endpoints",
                                    "transports",
                                    "forks",
                                    "messages received",
                                    "notifications",
                                    "set-ups refused by a limit",
                                    "bytes compared",
                                    "kills",
                                    "stops",
                                    "limits",
                                    "programs"};
  static_assert(std::size(kNames) == static_cast<size_t>(Tally::kCount));
  return kNames[static_cast<size_t>(tally)];
}

const char* ToString(OperationKind kind) {
  constexpr const char* kNames[] = {"write",
                                    "write of two parts",
                                    "inline write",
                                    "write with immediate",
                                    "read",
                                    "send",
                                    "send with immediate",
                                    "fetch and add",
                                    "fetch and add of 4 bytes",
                                    "masked fetch and add",
                                    "compare and swap",
                                    "compare and swap of 4 bytes",
                                    "masked compare and swap",
                                    "swap",
                                    "fetch and and",
                                    "fetch and or",
                                    "fetch and xor",
                                    "put signal",
                                    "nop",
                                    "fence",
                                    "wait for a CQ",
                                    "batch",
                                    "transport write",
                                    "transport read",
                                    "transport wait"};
  static_assert(std::size(kNames) == static_cast<size_t>(OperationKind::kCount));
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace soak
