#include "gpuio/api/iov.hpp"

#include <sys/random.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "gpuio/api/arguments.hpp"
#include "gpuio/control/mount.hpp"
#include "gpuio/control/owned_file.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

/// Opens a published buffer of the host's memory.
int OpenHostIov(const LinkName& name, const char* mount, size_t size, std::shared_ptr<Iov>& opened) {
  std::string target;
  if (const int error = ReadLink(IovFolderOf(mount) + "/" + name.ToString(), target); error != 0)
    return error;
  const std::string file = ShmNameOf(std::string_view(target));
  if (file.empty()) return EINVAL;
  opened = std::make_shared<Iov>(nullptr, name.id, nullptr);
  int error = 0;
  opened->shm = ShmFile::Open(file, size, error);
  return error == 0 || error == EINVAL || error == ENOENT ? error : EIO;
}

void Unlink(hf3fs_iov* iov) {
  if (iov == nullptr) return;
  const std::shared_ptr<Iov> found = Iovs().Find(iov->iovh);
  if (found == nullptr) return;
  if (const int error = found->Unlink(); error != 0) {
    Log(LogLevel::kError, "Cannot unlink the iov " + ToHex(found->id) + ": " +
                              host::Error::DescribeErrno(error) +
                              ". Check the permissions of the mount's control folder.");
  }
}

void Destroy(hf3fs_iov* iov) {
  if (iov == nullptr) return;
  if (const std::shared_ptr<Iov> found = Iovs().Find(iov->iovh); found != nullptr) {
    Unlink(iov);
    if (found->link && found->link->is_linked()) return;  // the next call tries again
    if (!Iovs().Remove(iov->iovh)) return;
    found->Detach();  // the memory goes after its registration
  } else if (iov->iovh != nullptr) {
    return;  // a copy of one that was destroyed
  }
  *iov = {};
}

}  // namespace

HandleTable<Iov>& Iovs() {
  static auto* const table = new HandleTable<Iov>;  // never destroyed, as the sessions
  return *table;
}

IovId RandomId() {
  IovId id{};
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    throw host::Error::FromErrno("name", "a buffer", errno, "Check that the kernel has random numbers");
  }
  return id;
}

std::string ShmNameOf(const IovId& id) {
  std::string name = ToHex(id);
  for (const size_t place : {size_t{20}, size_t{16}, size_t{12}, size_t{8}}) name.insert(place, "-");
  return kBufferFilePrefix + name;
}

void Describe(hf3fs_iov& out, const IovId& id, const char* mount, void* base, size_t size, size_t block_size,
              int numa, std::shared_ptr<Iov> iov) {
  void* const handle = iov == nullptr ? nullptr : Iovs().Add(std::move(iov));
  out = {};
  out.base = static_cast<uint8_t*>(base);
  out.iovh = handle;
  std::memcpy(out.id, id.data(), id.size());
  std::strncpy(out.mount_point, mount, sizeof out.mount_point - 1);
  out.size = size;
  out.block_size = block_size;
  out.numa = numa;
}

int Iov::AnnounceMemory(const DaemonSession::Caller& call) const {
  if (!gpu) return 0;
  const PublishRequest request{.name = link->name(),
                               .memory = gpu->published.info.ToBytes(),
                               .ipc_handle = gpu->ipc_handle,
                               .offset = gpu->ipc_offset};
  return call(request, gpu->published.file.get());
}

int Iov::Publish(const DaemonSession::Caller& call) {
  if (!link || !link->is_linked()) return 0;
  int error = link->CreateAgain();
  if (error == 0) error = AnnounceMemory(call);
  if (error == 0) error = call(AttachRequest{link->name()}, -1);
  return error;
}

int Iov::Unlink() { return link ? link->Remove() : 0; }

void Iov::Detach() {
  if (session == nullptr || !link || !link->IsOfThisProcess()) return;
  session->Remove(this);
  // A daemon that does not answer is gone, and its registrations with it.
  constexpr std::chrono::milliseconds kPause(1);
  while (session->Call(DetachRequest{link->name()}) == EBUSY) std::this_thread::sleep_for(kPause);
}

int PublishNew(Iov& iov, std::shared_ptr<DaemonSession::Member> member) {
  int error = iov.link->Create();
  if (error != 0) return error;
  error = iov.session->Add(std::move(member));
  if (error == 0) return 0;
  iov.link->Remove();
  iov.Detach();  // the daemon may still be registering the memory, which goes next
  return error;
}

int CreateHostIov(const char* mount, const LinkName& name, size_t size, int numa,
                  std::shared_ptr<Iov>& made) {
  int error = 0;
  std::shared_ptr<DaemonSession> session = DaemonSession::Of(mount, error);
  if (error != 0) return error;
  std::unique_ptr<ShmFile> shm = ShmFile::Create(ShmNameOf(name.id), size, numa, error);
  if (shm == nullptr) {
    Log(LogLevel::kError, "Cannot create " + std::to_string(size) + " bytes of shared memory: " +
                              host::Error::DescribeErrno(error) + ". Check df /dev/shm.");
    return EIO;
  }
  auto link = std::make_unique<PublishedLink>(session->mount(), name.ToString(), shm->path());
  made = std::make_shared<Iov>(std::move(session), name.id, std::move(link));
  made->shm = std::move(shm);
  return 0;
}

}  // namespace warpverbs::inline v0_2::gpuio

using namespace warpverbs::gpuio;

extern "C" {

int hf3fs_iovcreate(hf3fs_iov* iov, const char* mount, size_t size, size_t block_size, int numa) {
  if (iov == nullptr || !IsMountArgument(mount) || size == 0) return -EINVAL;
  return GuardedErrno([&] {
    const LinkName name{.id = RandomId(), .block_bytes = block_size};
    std::shared_ptr<Iov> made;
    int error = CreateHostIov(mount, name, size, numa, made);
    if (error == 0) error = PublishNew(*made, made);
    if (error != 0) return -error;
    std::byte* const base = made->shm->data();
    Describe(*iov, name.id, mount, base, size, block_size, numa, std::move(made));
    return 0;
  });
}

int hf3fs_iovopen(hf3fs_iov* iov, const uint8_t id[16], const char* mount, size_t size, size_t block_size,
                  int numa) {
  if (iov == nullptr || id == nullptr || !IsMountArgument(mount) || size == 0) return -EINVAL;
  return GuardedErrno([&] {
    const LinkName name{.id = IdOf(id), .block_bytes = block_size};
    std::shared_ptr<Iov> opened;
    if (const int error = OpenHostIov(name, mount, size, opened); error != 0) return -error;
    std::byte* const base = opened->shm->data();
    Describe(*iov, name.id, mount, base, size, block_size, numa, std::move(opened));
    return 0;
  });
}

int hf3fs_iovwrap(hf3fs_iov* iov, void* base, const uint8_t id[16], const char* mount, size_t size,
                  size_t block_size, int numa) {
  if (iov == nullptr || base == nullptr || id == nullptr || !IsMountArgument(mount) || size == 0)
    return -EINVAL;
  return GuardedErrno([&] {
    Describe(*iov, IdOf(id), mount, base, size, block_size, numa, nullptr);
    return 0;
  });
}

void hf3fs_iovunlink(hf3fs_iov* iov) {
  GuardedErrno([&] {
    Unlink(iov);
    return 0;
  });
}

void hf3fs_iovdestroy(hf3fs_iov* iov) {
  GuardedErrno([&] {
    Destroy(iov);
    return 0;
  });
}

}  // extern "C"
