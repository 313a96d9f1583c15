#include "ring_io.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <regex>
#include <stdexcept>

#include "local_servers.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"
#include "warpverbs/host/error.hpp"

namespace host = warpverbs::host;

namespace {

constexpr std::chrono::milliseconds kSignalPoll(100);
constexpr std::chrono::seconds kTimeout(60);

/// Throws if a function of the API returned a negative errno value.
void Check(int result, const std::string& step, const std::string& object, const std::string& remedy) {
  if (result >= 0) return;
  ThrowIfInterrupted();  // which ends the daemon, too
  throw host::Error::FromErrno(step, object, -result, remedy);
}

timespec In(std::chrono::nanoseconds time) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::chrono::nanoseconds end =
      std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) + time;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end);
  return {.tv_sec = seconds.count(), .tv_nsec = (end - seconds).count()};
}

std::string MemoryName(std::optional<int> gpu) {
  return gpu ? "memory of cuda:" + std::to_string(*gpu) : "host memory";
}

}  // namespace

std::optional<int> GpuOf(const std::string& device) {
  if (device == "cpu") return std::nullopt;
  return std::stoi(device.substr(device.rfind(':') + 1));
}

std::string CheckDevice(const std::string& device) {
  return std::regex_match(device, std::regex("cpu|cuda:[0-9]{1,3}"))
             ? ""
             : "'" + device + "' is neither cpu nor cuda:N";
}

Iov::Iov(const std::filesystem::path& mount, size_t bytes, std::optional<int> gpu) {
  const std::string object = "of " + std::to_string(bytes) + " bytes in " + MemoryName(gpu);
  if (gpu && *gpu >= hf3fs_gdr_device_count()) {
    throw host::Error(
        "create a buffer", object,
        "of the GPUs that a NIC can reach there are " + std::to_string(hf3fs_gdr_device_count()),
        "Run warpverbs-doctor to find out why, or choose --device cpu");
  }
  const int result = gpu ? hf3fs_iovcreate_gpu(&iov_, mount.c_str(), bytes, 0, *gpu)
                         : hf3fs_iovcreate(&iov_, mount.c_str(), bytes, 0, -1);
  Check(result, "create a buffer", object, "See what the daemon printed");
}

Iov::~Iov() { hf3fs_iovdestroy(&iov_); }

std::string Iov::name() const {
  return MemoryName(hf3fs_iov_is_gpu(&iov_) ? std::optional(hf3fs_iov_gpu_device(&iov_)) : std::nullopt);
}

void Iov::SyncBeforeIo() const {
  Check(hf3fs_iovsync(&iov_, 0), "synchronise", name(), "Find the kernel that failed");
}

void Iov::SyncAfterIo() const {
  Check(hf3fs_iovsync(&iov_, 1), "synchronise", name(), "Find the kernel that failed");
}

RegisteredFile::RegisteredFile(const std::filesystem::path& path, int flags)
    : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {
  if (fd_ < 0) throw host::Error::FromErrno("open", path.string(), errno, "Name another folder");
  const int result = hf3fs_reg_fd(fd_, 0);
  if (result <= 0) return;
  close(fd_);
  Check(-result, "register", path.string(), "Name a file on a mount that a daemon serves");
}

RegisteredFile::~RegisteredFile() {
  hf3fs_dereg_fd(fd_);
  close(fd_);
}

Ring::Ring(const std::filesystem::path& mount, bool reads, int entries) : reads_(reads) {
  Check(hf3fs_iorcreate(&ior_, mount.c_str(), entries, reads, 0, -1), "create a ring on", mount.string(),
        "Start warpverbs-gpuiod there");
}

Ring::~Ring() { hf3fs_iordestroy(&ior_); }

void Ring::Prepare(const Iov& iov, const RegisteredFile& file, const RingIo& io) {
  Check(hf3fs_prep_io(&ior_, &iov.get(), reads_, iov.get().base + io.at, file.fd(), io.offset, io.bytes,
                      reinterpret_cast<const void*>(io.tag)),
        "prepare", "an I/O of " + std::to_string(io.bytes) + " bytes", "This is a fault of the program");
}

void Ring::Submit() { Check(hf3fs_submit_ios(&ior_), "submit", "I/O", "This is a fault of the program"); }

size_t Ring::Wait(std::span<hf3fs_cqe> cqes) {
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  while (true) {
    const timespec until = In(kSignalPoll);
    const int count = hf3fs_wait_for_ios(&ior_, cqes.data(), static_cast<int>(cqes.size()), 1, &until);
    ThrowIfInterrupted();
    Check(count, "wait for", "I/O", "This is a fault of the program");
    for (const hf3fs_cqe& cqe : cqes.first(static_cast<size_t>(count))) {
      Check(cqe.result < 0 ? static_cast<int>(cqe.result) : 0, reads_ ? "read" : "write", "the file",
            "See what the daemon and the server print; docs/gpuio.md lists the errors");
    }
    if (count > 0) return static_cast<size_t>(count);
    if (std::chrono::steady_clock::now() > end)
      Check(-ETIMEDOUT, reads_ ? "read" : "write", "the file", "Look for a daemon or a server that hangs");
  }
}

void Ring::Transfer(const Iov& iov, const RegisteredFile& file, const RingIo& io, size_t piece) {
  std::array<hf3fs_cqe, 64> cqes{};
  const auto entries = static_cast<size_t>(hf3fs_io_entries(&ior_));
  size_t prepared = 0, moved = 0, under_way = 0;
  while (moved < io.bytes) {
    for (; prepared < io.bytes && under_way < entries; ++under_way) {
      const size_t bytes = std::min(piece, io.bytes - prepared);
      Prepare(iov, file, {io.at + prepared, io.offset + prepared, bytes, bytes});
      prepared += bytes;
    }
    Submit();
    const size_t done = Wait(cqes);
    for (const hf3fs_cqe& cqe : std::span(cqes).first(done)) {
      const auto wanted = reinterpret_cast<uintptr_t>(cqe.userdata);
      if (cqe.result != static_cast<int64_t>(wanted)) {
        throw std::runtime_error("Cannot " + std::string(reads_ ? "read" : "write") + " the file: " +
                                 std::to_string(cqe.result) + " of " + std::to_string(wanted) +
                                 " bytes were moved. Find out what has truncated it, or filled the disk.");
      }
      moved += static_cast<size_t>(cqe.result);
    }
    under_way -= done;
  }
}
