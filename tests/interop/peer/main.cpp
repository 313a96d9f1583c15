// Executes a driver's commands on the first RDMA device. The driver connects over a Unix socket or, in a
// guest, over a virtio-serial port.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "party.hpp"

namespace {

std::runtime_error Failure(const std::string& step) {
  return std::runtime_error(step + ": " + std::strerror(errno) + ".");
}

/// Returns false if the other side closed before everything was read.
bool ReadAll(int fd, void* data, size_t size) {
  auto* next = static_cast<char*>(data);
  while (size) {
    const ssize_t count = read(fd, next, size);
    if (count <= 0) return false;
    next += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool WriteAll(int fd, const void* data, size_t size) {
  const auto* next = static_cast<const char*>(data);
  while (size) {
    const ssize_t count = write(fd, next, size);
    if (count <= 0) return false;
    next += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

void Serve(interop::Party& party, int fd) {
  interop::Command command;
  while (ReadAll(fd, &command, sizeof(command))) {
    const interop::Answer answer = party.Execute(command);
    if (!WriteAll(fd, &answer, sizeof(answer))) break;
  }
  party.Close();
}

void ServeSocket(interop::Party& party, const std::string& path) {
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path.c_str());
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) || listen(listener, 1))
    throw Failure("Cannot listen on " + path);
  while (true) {
    const int driver = accept(listener, nullptr, nullptr);
    if (driver < 0) throw Failure("Cannot accept a connection on " + path);
    Serve(party, driver);
    close(driver);
  }
}

void ServePort(interop::Party& party, const std::string& path) {
  const int port = open(path.c_str(), O_RDWR);
  if (port < 0) throw Failure("Cannot open " + path);
  while (true) {
    pollfd driver{.fd = port, .events = POLLIN, .revents = 0};
    poll(&driver, 1, -1);
    if (driver.revents & POLLIN) Serve(party, port);
    usleep(10'000);  // without a driver, poll() returns at once and reports a hang-up
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string option = argc == 3 ? argv[1] : "";
  if (option != "--listen" && option != "--port") {
    std::fprintf(stderr, "usage: %s --listen SOCKET | --port DEVICE\n", argv[0]);
    return 2;
  }
  interop::Party party;
  option == "--listen" ? ServeSocket(party, argv[2]) : ServePort(party, argv[2]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
