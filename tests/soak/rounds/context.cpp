#include "soak/rounds/context.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "soak/rounds/forks.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"

namespace soak {
namespace {

void Pause() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

/// Opens a device of the child's own, and lets it work.
void WorkAlone() {
  using namespace warpverbs;
  using Cpu = arch::Cpu;
  const host::Device device;
  host::Endpoint a(device), b(device);
  a.Connect(b.Info());
  b.Connect(a.Info());
  device::SendQueue<Cpu, device::Exclusive> queue(a.View());
  const device::WaitLimit limit{.deadline_ns = Cpu::NowNs() + 30'000'000'000};
  const device::Posted posted = queue.Post(device::Nop(), limit);
  if (!posted.status.ok() || !queue.Wait(posted.ticket, limit).ok())
    throw std::runtime_error("a forked child's own endpoint does not work");
}

[[noreturn]] void RunChild(const Context& context, uint64_t choice, const std::function<void()>& destroy) {
  switch (choice % 4) {
    case 0:
      _exit(0);
    case 1:
      execl("/bin/true", "true", nullptr);
      _exit(errno == ENOMEM || errno == EMFILE || errno == ENFILE ? 0 : 1);
    case 2:
      destroy();
      _exit(0);
    default:
      try {
        WorkAlone();
      } catch (const std::exception& error) {
        if (!context.ExcusesRefusal()) {
          std::fprintf(stderr, "chaos: a forked child fails: %s\n", error.what());
          _exit(1);
        }
      }
      _exit(0);
  }
}

}  // namespace

bool Context::PeerIsGone() const { return (other().troubles & (kGone | kRefused)) != 0 || other().done; }

void Context::Meet() const {
  const uint64_t stage = ++own().stage;
  while (other().stage < stage && !PeerIsGone()) Pause();
}

bool Context::MeetForAnotherLife(uint32_t life) const {
  constexpr auto kEnough = std::chrono::seconds(20);
  if (side == 0 && std::chrono::steady_clock::now() - start > kEnough) own().enough = true;
  Meet();
  return life < plan.lives && !board.sides[0].enough && !PeerIsGone();
}

std::string Context::Await(const Text& text, uint64_t life) const {
  while (text.life.load(std::memory_order_acquire) != life) {
    if (PeerIsGone()) throw std::runtime_error("the peer is gone");
    Pause();
  }
  return text.Get();
}

bool Context::Explains(uint32_t consequences, uint32_t pair) const {
  const uint32_t deeds = own().links[pair].deeds | other().links[pair].deeds;
  const uint32_t explained =
      ConsequencesOfAll<Trouble>(own().troubles | other().troubles) | ConsequencesOfAll<Deed>(deeds);
  return (explained & consequences) != 0;
}

bool Context::ExcusesRefusal() const {
  bool explained = other().done;
  for (uint32_t pair = 0; pair < kMaxPairs; ++pair) explained |= Explains(kRefusal, pair);
  return explained;
}

bool Context::IsImpatient(const warpverbs::host::RetryConfig& retry) const {
  constexpr double kBusySeconds = 6;
  const double seconds =
      4.096e-6 * static_cast<double>(uint64_t{1} << retry.ack_timeout) * (retry.retry_count + 1);
  return seconds < kBusySeconds;
}

void Fail(const Context& context, const std::string& what) {
  std::fprintf(stderr, "chaos: side %u: %s\n", context.side, what.c_str());
  std::fflush(nullptr);
  _exit(1);
}

void Refuse(const Context& context, const std::exception& why) {
  if (!context.ExcusesRefusal()) Fail(context, std::string("an error without a cause: ") + why.what());
  std::fprintf(stderr, "side %u is refused: %s\n", context.side, why.what());
  context.own().troubles |= kRefused;
  context.counts().Add(Tally::kRefusedSetUps);
  std::fflush(nullptr);
  _exit(0);
}

void ForkAndWait(const Context& context, uint64_t choice, const std::function<void()>& destroy) {
  const pid_t child = fork();
  if (child < 0) {
    if (!context.ExcusesRefusal()) Fail(context, "fork() fails");
    return;
  }
  if (child == 0) RunChild(context, choice, destroy);
  context.counts().Add(Tally::kForks);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    Fail(context, "a forked child (choice " + std::to_string(choice % 4) + ") ends with status " +
                      std::to_string(status));
  }
}

}  // namespace soak
