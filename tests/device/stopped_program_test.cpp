// A program that is stopped (SIGSTOP) for longer than a poster waits for the posters before it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "test_queue.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;
using Queue = SendQueue<Cpu, Shared>;

constexpr std::chrono::milliseconds kStop(10'500);  // the limit is 10 s
constexpr std::chrono::milliseconds kHeadStart(50);

/// Waits until this program continues after a stop: until the time between two looks is long.
///
/// @param last  time of the first look, before the stop can begin
void AwaitStop(uint64_t last) {
  constexpr uint64_t kLongNs = 5'000'000'000;
  for (uint64_t now = Cpu::NowNs(); now - last < kLongNs; now = Cpu::NowNs()) last = now;
}

/// Posts behind a poster that is stopped with the program, before and after. Returns whether it succeeded.
///
/// @param waiting  file that gets a byte once the poster behind waits
bool PostBehindAStoppedPoster(int waiting) {
  TestQueue memory(8);
  Queue first(memory.View());
  auto batch = first.Begin(1);
  bool posted = false;
  std::thread behind([&] { posted = Queue(memory.View()).Post(Nop()).status.ok(); });
  while (Cpu::Load(&memory.control.tail) >> 32 != 2) std::this_thread::yield();
  std::this_thread::sleep_for(kHeadStart);  // it begins to wait
  const uint64_t running = Cpu::NowNs();
  if (write(waiting, "", 1) != 1) _exit(2);
  AwaitStop(running);
  std::this_thread::sleep_for(kHeadStart);  // the other poster looks at the clock first
  const bool submitted = batch.Submit().status.ok();
  behind.join();
  return posted && submitted && memory.control.error == 0;
}

TEST(StoppedProgram, KeepsItsSharedQueues) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    _exit(PostBehindAStoppedPoster(pipe_ends[1]) ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(pipe_ends[0], &byte, 1), 1);
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  std::this_thread::sleep_for(kStop);
  ASSERT_EQ(kill(child, SIGCONT), 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0) << "a poster gave up behind one that lives";
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace warpverbs::device
