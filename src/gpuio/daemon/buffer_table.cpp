#include "gpuio/daemon/buffer_table.hpp"

#include <asio/post.hpp>
#include <cerrno>
#include <exception>
#include <set>
#include <utility>

#include "gpuio/control/log.hpp"
#include "gpuio/daemon/client.hpp"
#include "gpuio/daemon/daemon.hpp"

namespace warpverbs::inline v0_2::gpuio {

void BufferTable::AttachHost(const BufferName& name, std::shared_ptr<GuardedMapping> mapping,
                             uint64_t block_bytes, Done done) {
  Register(name, std::move(done), [mapping = std::move(mapping), block_bytes, device = device_](int& error) {
    return AttachHostMemory(mapping, block_bytes, device, error);
  });
}

void BufferTable::AttachGpu(const BufferName& name, PublishedMemory published, Done done) {
  std::shared_ptr<AttachedBuffer> known = FindShared(published);
  if (known == nullptr) known = FindRegistered(name.owner.lock(), published);
  if (known != nullptr) {
    Add(name, std::move(known));
    return done(0);
  }
  const auto shared = std::make_shared<const PublishedMemory>(std::move(published));
  Register(name, std::move(done),
           [shared, device = device_](int& error) { return AttachGpuMemory(*shared, device, error); });
}

void BufferTable::Register(const BufferName& name, Done done, Work work) {
  const auto attaching = std::make_shared<Attaching>();
  attaching->name = name;
  attaching->done.push_back(std::move(done));
  attaching_[name.link] = attaching;
  asio::post(threads_, [weak = weak_from_this(), &loop = loop_, attaching, work = std::move(work)] {
    int error = 0;
    std::shared_ptr<AttachedBuffer> buffer;
    try {
      buffer = work(error);
    } catch (const std::exception& failure) {
      Log(LogLevel::kError, failure.what());
      error = ENOMEM;
    }
    asio::post(loop.executor(), [weak, attaching, error, buffer = std::move(buffer)]() mutable {
      if (const auto self = weak.lock()) self->OnRegistered(attaching, error, std::move(buffer));
    });
  });
}

void BufferTable::OnRegistered(const AttachingPtr& attaching, int error,
                               std::shared_ptr<AttachedBuffer> buffer) {
  const auto found = attaching_.find(attaching->name.link);
  if (found == attaching_.end() || found->second != attaching) {  // it was removed meanwhile
    buffer.reset();  // the client may free the memory when it hears of it
    return End(attaching, ECANCELED);
  }
  attaching_.erase(found);
  if (error == 0 && HasId(attaching->name.id)) error = EEXIST;
  if (error == 0) Add(attaching->name, std::move(buffer));
  End(attaching, error);
}

void BufferTable::End(const AttachingPtr& attaching, int error) {
  for (const Done& done : std::exchange(attaching->done, {})) done(error);
}

void BufferTable::Add(const BufferName& name, std::shared_ptr<AttachedBuffer> buffer) {
  by_id_[name.id] = name.link;
  buffers_.emplace(name.link, Named{name, std::move(buffer)});
}

/// Returns a part of memory that another application has attached, and this one has opened by IPC; or
/// nullptr.
std::shared_ptr<AttachedBuffer> BufferTable::FindShared(const PublishedMemory& published) const {
  if (!published.ipc_handle || published.memory.file) return nullptr;
  const uint64_t bytes = published.memory.info.bytes;
  for (const auto& [link, named] : buffers_) {
    const AttachedBuffer& other = *named.buffer;
    if (other.ipc_handle != published.ipc_handle || published.ipc_offset < other.ipc_offset) continue;
    const uint64_t inside = published.ipc_offset - other.ipc_offset;
    if (inside > other.bytes() || bytes > other.bytes() - inside) continue;
    auto part = std::make_shared<AttachedBuffer>(other.memory(), other.offset() + inside, bytes, 0);
    part->part_of = other.part_of != nullptr ? other.part_of : named.buffer;
    return part;
  }
  return nullptr;
}

/// Returns a buffer in memory that this client has attached already, as a larger piece of the same
/// allocation; or nullptr. The registration lives as long as the last buffer of it.
std::shared_ptr<AttachedBuffer> BufferTable::FindRegistered(const std::shared_ptr<Client>& client,
                                                            const PublishedMemory& published) const {
  const host::SharedMemoryInfo& info = published.memory.info;
  if (!published.memory.file || info.buffer_id == 0) return nullptr;
  for (const auto& [link, named] : buffers_) {
    const AttachedBuffer& other = *named.buffer;
    if (!other.published || named.name.owner.lock() != client) continue;
    const host::SharedMemoryInfo& whole = *other.published;
    const bool is_same = whole.buffer_id == info.buffer_id && whole.process == info.process;
    if (!is_same || info.address < whole.address) continue;
    const uint64_t inside = info.address - whole.address;
    if (inside > whole.bytes || info.bytes > whole.bytes - inside) continue;
    auto buffer = std::make_shared<AttachedBuffer>(other.memory(), other.offset() + inside, info.bytes, 0);
    buffer->ipc_handle = published.ipc_handle;
    buffer->ipc_offset = published.ipc_offset;
    buffer->published = info;
    return buffer;
  }
  return nullptr;
}

int BufferTable::Await(const std::shared_ptr<Client>& client, const std::string& link, Done done) {
  const auto found = attaching_.find(link);
  if (found == attaching_.end() || found->second->name.owner.lock() != client) return ENOENT;
  if (found->second->done.size() >= kMaxWaiters) return EAGAIN;
  found->second->done.push_back(std::move(done));
  return 0;
}

bool BufferTable::Remove(const std::string& link) {
  std::erase_if(leaving_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto node = attaching_.extract(link); !node.empty()) {
    leaving_.insert_or_assign(link, std::weak_ptr<const void>(node.mapped()));
    return true;  // those that wait are told when its memory is free
  }
  const auto node = buffers_.extract(link);
  if (node.empty()) return false;
  const std::shared_ptr<AttachedBuffer> buffer = std::move(node.mapped().buffer);
  by_id_.erase(node.mapped().name.id);
  leaving_.insert_or_assign(link, std::weak_ptr<const void>(buffer));
  // The memory goes, so what other processes have opened of it goes, too.
  std::vector<std::string> parts;
  for (const auto& [other, named] : buffers_) {
    if (named.buffer->part_of == buffer) parts.push_back(other);
  }
  for (const std::string& part : parts) Remove(part);
  return true;
}

bool BufferTable::IsLeaving(const std::string& link) const {
  const auto found = leaving_.find(link);
  return found != leaving_.end() && !found->second.expired();
}

bool BufferTable::Owns(const std::shared_ptr<Client>& client, const std::string& link) const {
  if (const auto found = attaching_.find(link); found != attaching_.end())
    return found->second->name.owner.lock() == client;
  const auto found = buffers_.find(link);
  return found != buffers_.end() && found->second.name.owner.lock() == client;
}

std::shared_ptr<AttachedBuffer> BufferTable::Find(const IovId& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : buffers_.at(found->second).buffer;
}

void BufferTable::Count(DaemonStatistics& statistics) const {
  std::set<const RegisteredMemory*> registered;
  for (const auto& [link, named] : buffers_) {
    ++(named.buffer->is_gpu() ? statistics.gpu_buffers : statistics.host_buffers);
    registered.insert(named.buffer->memory().get());
  }
  statistics.registrations = registered.size();
}

void BufferTable::Stop() {
  attaching_.clear();
  threads_.stop();
  threads_.join();
  by_id_.clear();
  buffers_.clear();
}

}  // namespace warpverbs::inline v0_2::gpuio
