#pragma once

#include <asio/thread_pool.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpuio/control/names.hpp"
#include "gpuio/daemon/attached_buffer.hpp"
#include "gpuio/daemon/guarded_mapping.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

struct Client;
struct DaemonStatistics;

/// The name by which an application has a buffer attached.
struct BufferName {
  std::weak_ptr<Client> owner{};
  std::string link{};
  IovId id{};
};

/// The buffers of all applications, by the names of their links, and those whose memory is being registered.
///
/// Memory is registered on threads of its own: that pins pages, which takes seconds where there are many.
/// All calls and callbacks are on the loop's thread.
class BufferTable : public std::enable_shared_from_this<BufferTable> {
 public:
  /// @param error  0 or an errno value: ENOMEM, ENOTSUP; EEXIST: another buffer has taken the id;
  ///               ECANCELED: Remove() was called, and NICs access the memory no more
  using Done = std::function<void(int error)>;

  BufferTable(const RegistrationDevice& device, transport::EventLoop& loop) : device_(device), loop_(loop) {}
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;

  /// Attaches a buffer. Calls `done` once, but for Stop().
  ///
  /// @pre  Has() is false for its link
  void AttachHost(const BufferName& name, std::shared_ptr<GuardedMapping> mapping, uint64_t block_bytes,
                  Done done);
  void AttachGpu(const BufferName& name, PublishedMemory published, Done done);

  /// Calls `done` with the others who wait for a buffer to be attached.
  ///
  /// @return  0; ENOENT: it is not being attached for this client; EAGAIN: too many wait
  int Await(const std::shared_ptr<Client>& client, const std::string& link, Done done);

  /// Forgets a buffer. I/O under way keeps its memory: see IsLeaving().
  ///
  /// @return  false: there is none
  bool Remove(const std::string& link);

  /// Says whether NICs may still access the memory of a buffer that was removed.
  bool IsLeaving(const std::string& link) const;

  /// Says whether a buffer has the name, or gets it.
  bool Has(const std::string& link) const { return buffers_.contains(link) || attaching_.contains(link); }
  bool HasId(const IovId& id) const { return by_id_.contains(id); }

  /// Says whether a name is that of a client's buffer. Another client may have taken a name whose link was
  /// removed.
  bool Owns(const std::shared_ptr<Client>& client, const std::string& link) const;

  /// @return  nullptr: there is none
  std::shared_ptr<AttachedBuffer> Find(const IovId& id) const;

  void Count(DaemonStatistics& statistics) const;

  /// Forgets everything, after the threads have ended what they do.
  void Stop();

 private:
  struct Named {
    BufferName name;
    std::shared_ptr<AttachedBuffer> buffer;
  };
  struct Attaching {
    BufferName name{};
    std::vector<Done> done{};
  };
  using AttachingPtr = std::shared_ptr<Attaching>;
  using Work = std::function<std::shared_ptr<AttachedBuffer>(int& error)>;

  void Register(const BufferName& name, Done done, Work work);
  void OnRegistered(const AttachingPtr& attaching, int error, std::shared_ptr<AttachedBuffer> buffer);
  void End(const AttachingPtr& attaching, int error);
  void Add(const BufferName& name, std::shared_ptr<AttachedBuffer> buffer);
  std::shared_ptr<AttachedBuffer> FindShared(const PublishedMemory& published) const;
  std::shared_ptr<AttachedBuffer> FindRegistered(const std::shared_ptr<Client>& client,
                                                 const PublishedMemory& published) const;

  static constexpr size_t kThreads = 4;
  static constexpr size_t kMaxWaiters = 8;  // of one buffer

  const RegistrationDevice device_;
  transport::EventLoop& loop_;
  std::map<std::string, AttachingPtr> attaching_;  // by the names of their links, as the next one
  std::map<std::string, Named> buffers_;
  std::map<IovId, std::string> by_id_;
  std::map<std::string, std::weak_ptr<const void>> leaving_;  // by former names: what I/O may still use
  asio::thread_pool threads_{kThreads};                       // first to go
};

}  // namespace warpverbs::inline v0_2::gpuio
