#include "gpuio/daemon/submit_semaphore.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "gpuio/control/owned_file.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr std::chrono::milliseconds kPoll(100), kPollDamaged(1);
constexpr uint32_t kMaxPosts = 1024;  // taken at once: more is no submission, but nonsense

/// Creates the file that sem_open() finds by this name.
///
/// @param error  0 or an errno value
std::unique_ptr<GuardedMapping> CreateSemaphore(const std::string& name, int& error) {
  host::FileDescriptor file = MakeOwnFile(sizeof(sem_t), error);
  if (error != 0) return nullptr;
  auto memory = GuardedMapping::Map(std::move(file), sizeof(sem_t), error);
  if (error != 0) return nullptr;
  sem_init(reinterpret_cast<sem_t*>(memory->data()), 1, 0);
  error = NameOwnFile(memory->file().get(), "sem." + name);
  return memory;
}

}  // namespace

SubmitSemaphore::SubmitSemaphore(std::function<void()> wake) : wake_(std::move(wake)) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<uint64_t>(getpid());
  name_ = "hf3fs-submit-" + std::to_string(random);
  int error = 0;
  memory_ = CreateSemaphore(name_, error);
  if (error != 0) {
    throw host::Error::FromErrno("create", "the semaphore of submissions", error,
                                 "Check that /dev/shm is a tmpfs with free space");
  }
  thread_ = std::thread([this] { Run(); });
}

SubmitSemaphore::~SubmitSemaphore() {
  stops_ = true;
  semaphore().Post();
  thread_.join();
  shm_unlink(("/sem." + name_).c_str());
}

SharedSemaphore SubmitSemaphore::semaphore() const {
  return SharedSemaphore(reinterpret_cast<sem_t*>(memory_->data()));
}

void SubmitSemaphore::Run() {
  while (!stops_) {
    semaphore().WaitFor(kPoll);
    if (semaphore().TakeAll() >= kMaxPosts) std::this_thread::sleep_for(kPollDamaged);
    if (!stops_) wake_();
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
