#include "remote_party.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace interop {
namespace {

int TryConnect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path.c_str());
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

void SetTimeout(int fd, int milliseconds) {
  const timeval time{.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

}  // namespace

RemoteParty::RemoteParty(std::string name, std::string path, int timeout_ms)
    : name_(std::move(name)), path_(std::move(path)) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while ((socket_ = TryConnect(path_)) < 0 && steady_clock::now() < deadline) usleep(20'000);
  if (socket_ < 0) throw std::runtime_error("The peer " + name_ + " does not listen on " + path_ + ".");
  SetTimeout(socket_, timeout_ms);  // QEMU listens before its guest answers
  device_ = Ask(Open{}).device.data();
  SetTimeout(socket_, 30'000);  // no command takes longer
}

RemoteParty::~RemoteParty() { close(socket_); }

Answer RemoteParty::Ask(const Command& command) {
  Answer answer;
  const bool asked = send(socket_, &command, sizeof(command), MSG_NOSIGNAL) == sizeof(command);
  if (!asked || recv(socket_, &answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
    throw std::runtime_error("The peer " + name_ + " on " + path_ + " does not answer.");
  return answer;
}

}  // namespace interop
