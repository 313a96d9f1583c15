#include "wire/media/cable_medium.hpp"

#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "wire/frame.hpp"

namespace softhca {
namespace {

sockaddr_un PathOf(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) {
    throw CommandError(
        mlx5::CommandStatus::kBadParameter,
        "the path " + path + " is too long for a Unix socket; use a path of at most 107 characters");
  }
  path.copy(address.sun_path, path.size());
  return address;
}

}  // namespace

CableMedium::CableMedium(const std::string& local, const std::string& remote, std::vector<WireAddress> own)
    : local_(local),
      remote_(remote),
      socket_(OpenSocket(AF_UNIX, SOCK_DGRAM, 0)),
      neighbours_(std::move(own), [this](std::span<const uint8_t> frame) { Put(frame); }),
      buffer_(1 << 16) {
  const sockaddr_un address = PathOf(local);
  PathOf(remote);  // throws if it is too long
  if (connect(OpenSocket(AF_UNIX, SOCK_DGRAM, 0).get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof address) == 0) {
    throw CommandError(
        mlx5::CommandStatus::kBadParameter,
        "another process uses the cable's end " + local + "; give each process its own, or stop that one");
  }
  if (std::filesystem::is_socket(local)) unlink(local.c_str());
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    RefuseSocket("cannot make the socket " + local,
                 "its folder must exist and be writable, and no other file may have this name");
  }
}

CableMedium::~CableMedium() { unlink(local_.c_str()); }

/// Sends a frame. If the other end has no room, the frame is lost, as on a wire.
void CableMedium::Put(std::span<const uint8_t> frame) const {
  const sockaddr_un address = PathOf(remote_);
  if (sendto(socket_.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&address),
             sizeof address) < 0) {
    Lose("the cable's other end does not take it");
  }
}

void CableMedium::Send(std::span<const uint8_t> bytes) {
  const std::optional<Frame> frame = ParseFrame(bytes);
  if (!frame) return;
  if (IsMulticast(frame->flow.destination)) return Put(bytes);
  if (waiting_.size() == kMaxWaiting) {
    waiting_.pop_front();
    Lose("its Ethernet address is unknown");
  }
  waiting_.emplace_back(bytes.begin(), bytes.end());
  if (!neighbours_.Find(frame->flow.destination)) neighbours_.Ask(frame->flow.destination);
  SendWaiting();
}

/// Sends the waiting frames whose Ethernet address is known, in order. The ICRC does not cover that address.
void CableMedium::SendWaiting() {
  const auto send = [this](std::vector<uint8_t>& frame) {
    const auto mac = neighbours_.Find(ParseFrame(frame)->flow.destination);
    if (!mac) return false;
    std::copy(mac->begin(), mac->end(), frame.begin());
    Put(frame);
    return true;
  };
  std::erase_if(waiting_, send);
}

size_t CableMedium::Receive(size_t most, const FrameSink& sink) {
  size_t count = 0;
  for (; count < most; ++count) {
    const ssize_t bytes = recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
    if (bytes < 0) break;
    const std::span<const uint8_t> frame(buffer_.data(), static_cast<size_t>(bytes));
    neighbours_.Take(frame) ? SendWaiting() : sink(frame);
  }
  return count;
}

}  // namespace softhca
