#pragma once

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "wire/engine_threads.hpp"

namespace softhca {

inline Gid RandomGid() {
  std::random_device random;
  Gid gid{};
  for (uint8_t& byte : gid) byte = static_cast<uint8_t>(random());
  return gid;
}

/// A process with an engine that does nothing: it sleeps.
class EngineProcess {
 public:
  enum class Kind : uint8_t { kAlone, kWithChild };

  /// @param kind  kWithChild: a forked child keeps its descriptors for as long as this object exists
  explicit EngineProcess(const Gid& gid, Kind kind = Kind::kAlone) : gid_(gid) {
    int ready[2], end[2];
    EXPECT_EQ(pipe(ready), 0);
    EXPECT_EQ(pipe(end), 0);
    process_ = fork();
    if (process_ == 0) {
      close(ready[0]);
      close(end[1]);
      Run(gid, kind, ready[1], end[0]);
    }
    close(ready[1]);  // so that its death ends read()
    close(end[0]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "the process has died";
    close(ready[0]);
    end_ = end[1];
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!Sleeps() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(Sleeps());
  }
  ~EngineProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    close(end_);
  }
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  void Stop() const {
    siginfo_t stopped{};
    kill(process_, SIGSTOP);
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process_), &stopped, WSTOPPED), 0);
  }
  void Continue() const { kill(process_, SIGCONT); }
  /// Kills the process, and leaves it as a zombie.
  void Kill() const {
    siginfo_t ended{};
    kill(process_, SIGKILL);
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOWAIT), 0);
  }

  const Gid& gid() const { return gid_; }

 private:
  [[noreturn]] static void Run(const Gid& gid, Kind kind, int ready, int end) {
    pthread_setname_np(pthread_self(), EngineThreads::kName);
    EngineThreads threads;
    threads.Announce({gid}, gettid());
    char byte = 0;
    if (kind == Kind::kWithChild && fork() == 0) _exit(read(end, &byte, 1) == 0 ? 0 : 1);
    if (write(ready, "x", 1) == 1) static_cast<void>(!read(end, &byte, 1));
    _exit(0);
  }

  /// Returns whether the process waits, or has ended.
  bool Sleeps() const {
    std::string text;
    std::getline(std::ifstream("/proc/" + std::to_string(process_) + "/stat"), text);
    return text.empty() || text.find(") S ") != std::string::npos || text.find(") Z ") != std::string::npos;
  }

  Gid gid_;
  pid_t process_ = 0;
  int end_ = -1;  ///< the processes end when it is closed
};

}  // namespace softhca
