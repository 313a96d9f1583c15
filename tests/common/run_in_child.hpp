#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

namespace warpverbs::tests {

/// Runs a part of a test in a forked child, which has copies of the test's objects. Kills it after a minute.
template <class Part>
void RunInChild(const Part& part) {
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    alarm(60);
    try {
      part();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  ASSERT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) << "the child hangs";
  ASSERT_EQ(status, 0);
}

}  // namespace warpverbs::tests
