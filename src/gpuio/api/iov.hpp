#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gpuio/api/daemon_session.hpp"
#include "gpuio/api/handle_table.hpp"
#include "gpuio/api/published_link.hpp"
#include "gpuio/api/shm_file.hpp"
#include "gpuio/control/names.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio.h"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Memory of a GPU behind an iov.
struct GpuIovMemory {
  int gpu = -1;
  std::shared_ptr<host::Buffer> memory;  ///< memory of this process, or opened from another
  size_t bytes = 0;                      ///< size of the iov, which begins where the buffer does
  host::SharedMemory published{};        ///< description for the daemon; empty for an opened iov
  std::optional<std::array<uint8_t, 64>>
      ipc_handle{};                               ///< CUDA's handle of the allocation, for other processes
  uint64_t ipc_offset = 0, allocation_bytes = 0;  ///< place of the iov in that allocation
};

/// A buffer behind an iov.
class Iov final : public DaemonSession::Member {
 public:
  /// @param published  null: it was opened
  Iov(std::shared_ptr<DaemonSession> daemon, const IovId& name, std::unique_ptr<PublishedLink> published)
      : session(std::move(daemon)), id(name), link(std::move(published)) {}

  int rank() const override { return 0; }
  void OnLost(bool) override {}
  int Publish(const DaemonSession::Caller& call) override;
  std::string name() const override { return "the iov " + ToHex(id); }

  /// Removes the link.
  ///
  /// @return  0 or an errno value; then nothing has changed
  int Unlink();

  /// Makes the daemon forget the buffer.
  void Detach();

  std::shared_ptr<DaemonSession> session;  // null: opened
  IovId id;
  const std::unique_ptr<PublishedLink> link;
  std::unique_ptr<ShmFile> shm;
  std::optional<GpuIovMemory> gpu;

 private:
  int AnnounceMemory(const DaemonSession::Caller& call) const;
};

/// The live buffers of this process.
HandleTable<Iov>& Iovs();

/// Returns a random name.
IovId RandomId();

/// Returns the name of the file of /dev/shm for a buffer: `hf3fs-iov-<uuid>`.
std::string ShmNameOf(const IovId& id);

/// Makes a buffer's link, and publishes the buffer, or the ring whose memory it is. What failed leaves
/// nothing behind.
///
/// @return  0 or an errno value
int PublishNew(Iov& iov, std::shared_ptr<DaemonSession::Member> member);

/// Fills in all of an iov; its handle, too, unless `iov` is null.
void Describe(hf3fs_iov& out, const IovId& id, const char* mount, void* base, size_t size, size_t block_size,
              int numa, std::shared_ptr<Iov> iov);

/// Creates memory of the host and publishes it by a name that has this id.
///
/// @param name    of the link
/// @return        0 or an errno value
int CreateHostIov(const char* mount, const LinkName& name, size_t size, int numa, std::shared_ptr<Iov>& made);

}  // namespace warpverbs::inline v0_2::gpuio
