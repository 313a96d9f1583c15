#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::host {

/// A process that runs a part of a test at the other end of a socket.
///
/// @pre  this process has neither threads nor devices nor GPUs yet
class Child {
 public:
  template <class Part>
  explicit Child(const Part& part) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket_ = FileDescriptor(ends[0]);
    FileDescriptor theirs(ends[1]);
    process_ = fork();
    EXPECT_GE(process_, 0);
    if (process_ == 0) {
      socket_ = FileDescriptor();
      Run(part, theirs.get());
    }
  }
  ~Child() { Finish(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int socket() const { return socket_.get(); }

  /// Waits for the child, which ends at the latest when the socket closes.
  void Finish() {
    if (process_ <= 0) return;
    socket_ = FileDescriptor();
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the other process failed: " << status;
  }

 private:
  template <class Part>
  [[noreturn]] static void Run(const Part& part, int socket) {
    try {
      part(socket);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }

  FileDescriptor socket_;
  pid_t process_ = -1;
};

inline Deadline InAMinute() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

/// Lets the other end of the socket continue.
inline void Go(int socket) { EXPECT_EQ(write(socket, "g", 1), 1); }
inline void AwaitGo(int socket) {
  char go = 0;
  EXPECT_EQ(read(socket, &go, 1), 1) << "the other process has ended";
}

}  // namespace warpverbs::inline v0_2::host
