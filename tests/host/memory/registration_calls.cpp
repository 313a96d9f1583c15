#include "host/memory/registration_calls.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

#undef ibv_reg_mr

namespace warpverbs::inline v0_2::host {
namespace {

std::mutex mutex;  // guards the variables below: tests register on many threads
RegistrationFault injected_registration;
unsigned last_access = 0;
int registrations = 0;
DmaBufCall last_dma_buf;
bool holds_registrations = false;
int held_registrations = 0;
std::condition_variable release;

template <class Function>
Function* LibrarysOwn(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool Refuses(unsigned access, int RegistrationFault::*way) {
  std::unique_lock lock(mutex);
  ++held_registrations;
  release.wait(lock, [] { return !holds_registrations; });
  --held_registrations;
  last_access = access;
  ++registrations;
  const int error = injected_registration.*way;
  int& calls = injected_registration.calls;
  if (error == 0 || calls == 0) return false;
  if (calls > 0) --calls;
  errno = error;
  return true;
}

}  // namespace

void Inject(const RegistrationFault& fault) {
  const std::lock_guard lock(mutex);
  injected_registration = fault;
}

void HoldRegistrations(bool holds) {
  const std::lock_guard lock(mutex);
  holds_registrations = holds;
  release.notify_all();
}

int HeldRegistrations() {
  const std::lock_guard lock(mutex);
  return held_registrations;
}

unsigned LastAccess() {
  const std::lock_guard lock(mutex);
  return last_access;
}

int Registrations() {
  const std::lock_guard lock(mutex);
  return registrations;
}

DmaBufCall LastDmaBufCall() {
  const std::lock_guard lock(mutex);
  return last_dma_buf;
}

}  // namespace warpverbs::inline v0_2::host

using namespace warpverbs::host;

extern "C" {

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* memory, size_t bytes, int access) {
  if (Refuses(static_cast<unsigned>(access), &RegistrationFault::by_address)) return nullptr;
  return LibrarysOwn(&ibv_reg_mr, "ibv_reg_mr")(pd, memory, bytes, access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, size_t bytes, uint64_t iova, unsigned access) {
  if (Refuses(access, &RegistrationFault::by_address)) return nullptr;
  return LibrarysOwn(&ibv_reg_mr_iova2, "ibv_reg_mr_iova2")(pd, memory, bytes, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t bytes, uint64_t iova, int file, int access) {
  {
    const std::lock_guard lock(mutex);
    last_dma_buf = {offset, bytes, iova, file};
  }
  if (Refuses(static_cast<unsigned>(access), &RegistrationFault::by_dma_buf)) return nullptr;
  return LibrarysOwn(&ibv_reg_dmabuf_mr, "ibv_reg_dmabuf_mr")(pd, offset, bytes, iova, file, access);
}

}  // extern "C"
