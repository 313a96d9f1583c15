// An application of its own process: gpuio_application MOUNT COMMAND ...
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fake_cuda.hpp"
#include "hf3fs_usrbio.h"
#include "hf3fs_usrbio_gdr.h"
#include "snippets.h"

namespace {

constexpr size_t kBytes = 1'000'003;

/// Says which step failed, and ends.
void Check(bool holds, const char* step) {
  if (holds) return;
  std::printf("failed: %s\n", step);
  std::exit(1);
}

/// Ends if bytes differ. Each round has a value of its own, so the values tell where wrong bytes are from.
void Compare(const std::byte* expected, const std::byte* found, unsigned round) {
  size_t wrong = 0, first = 0;
  for (size_t i = kBytes; i-- > 0;) {
    if (expected[i] == found[i]) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return;
  std::printf("failed: round %u (%02x): %zu bytes differ, the first at %zu: %02x\n", round,
              std::to_integer<unsigned>(expected[first]), wrong, first,
              std::to_integer<unsigned>(found[first]));
  std::exit(1);
}

/// Writes a pattern out of GPU memory, reads it into other GPU memory and compares, round by round, until the
/// standard input ends. Errors of a daemon or a server that are gone are counted.
void Loop(const char* mount, const std::string& path) {
  hf3fs_iov from{}, to{};
  hf3fs_ior reads{}, writes{};
  Check(hf3fs_iovcreate_gpu(&from, mount, kBytes, 0, 0) == 0, "create from");
  Check(hf3fs_iovcreate_gpu(&to, mount, kBytes, 0, 0) == 0, "create to");
  Check(hf3fs_iorcreate(&reads, mount, 8, true, 0, -1) == 0, "create reads");
  Check(hf3fs_iorcreate(&writes, mount, 8, false, 0, -1) == 0, "create writes");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  Check(fd >= 0 && hf3fs_reg_fd(fd, 0) <= 0, "register the file");
  fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  std::printf("started %zx %zx %zx\n", reinterpret_cast<size_t>(from.base), reinterpret_cast<size_t>(to.base),
              kBytes);
  std::fflush(stdout);
  unsigned rounds = 0, errors = 0;
  const auto transfer = [&](hf3fs_ior& ior, hf3fs_iov& iov, bool read) {
    hf3fs_cqe cqe{};
    Check(hf3fs_prep_io(&ior, &iov, read, iov.base, fd, 0, kBytes, nullptr) >= 0, "prepare");
    Check(hf3fs_submit_ios(&ior) == 0, "submit");
    Check(hf3fs_wait_for_ios(&ior, &cqe, 1, 1, nullptr) == 1, "wait");
    if (cqe.result == static_cast<int64_t>(kBytes)) return true;
    Check(cqe.result == -EREMOTEIO, std::to_string(cqe.result).c_str());
    ++errors;
    usleep(1000);
    return false;
  };
  for (char byte = 0; read(STDIN_FILENO, &byte, 1) != 0; ++rounds) {
    std::memset(fake_cuda::Reach(from.base, kBytes), static_cast<int>(rounds), kBytes);
    std::memset(fake_cuda::Reach(to.base, kBytes), 0xee, kBytes);
    if (!transfer(writes, from, false) || !transfer(reads, to, true)) continue;
    Compare(fake_cuda::Reach(from.base, kBytes), fake_cuda::Reach(to.base, kBytes), rounds);
  }
  // A daemon or a server that was replaced serves again at last.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!transfer(writes, from, false) || !transfer(reads, to, true))
    Check(std::chrono::steady_clock::now() < end, "end without errors");
  hf3fs_dereg_fd(fd);
  hf3fs_iordestroy(&reads);
  hf3fs_iordestroy(&writes);
  hf3fs_iovdestroy(&from);
  hf3fs_iovdestroy(&to);
  std::printf("rounds %u errors %u\n", rounds, errors);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string command = argv[2];
  if (command == "loop") {
    Loop(argv[1], argv[3]);
    return 0;
  }
  const int step = command == "gpu" ? snippet_gpu_round_trip(argv[1], argv[3], kBytes, 0)
                                    : snippet_write_and_read(argv[1], argv[3]);
  std::printf("%s: step %d\n", command.c_str(), step);
  return step == 0 ? 0 : 1;
}
