#include "uverbs/context.hpp"

#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>

#include <algorithm>

namespace softhca::uverbs {
namespace {

const char* Describe(Kind kind) {
  switch (kind) {
    case Kind::kPd:
      return "protection domain";
    case Kind::kMkey:
      return "memory key";
    case Kind::kWindow:
      return "memory window";
    case Kind::kUar:
      return "UAR";
    case Kind::kUmem:
      return "umem";
    case Kind::kCq:
      return "completion queue";
    case Kind::kSrq:
      return "shared receive queue";
    case Kind::kQp:
      return "queue pair";
    case Kind::kAddressHandle:
      return "address handle";
    case Kind::kXrcd:
      return "XRC domain";
    case Kind::kCardMemory:
      return "card memory";
  }
  return "object";
}

}  // namespace

Context::~Context() {
  const auto lock = engine_.Pause();
  hca().RemoveLinkListener(this);
  // Newest first: an object is newer than the objects that it uses.
  while (!objects_.empty()) {
    const auto newest = std::prev(objects_.end());
    DestroyInHca(*newest->second);
    objects_.erase(newest);
  }
}

uint32_t Context::Add(std::unique_ptr<Object> object) {
  objects_.emplace(++last_handle_, std::move(object));
  return last_handle_;
}

Object& Context::GetAny(uint32_t handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) throw Errno(ENOENT, "handle " + std::to_string(handle) + " does not exist");
  return *found->second;
}

Object& Context::Get(uint32_t handle, Kind kind) {
  Object& object = GetAny(handle);
  if (object.kind != kind || object.devx)
    throw Errno(EINVAL, "handle " + std::to_string(handle) + " belongs to another kind of object");
  return object;
}

const Object* Context::Find(Kind kind, uint32_t number) const {
  const auto found = std::find_if(objects_.begin(), objects_.end(), [&](const auto& entry) {
    return entry.second->kind == kind && entry.second->number == number;
  });
  return found == objects_.end() ? nullptr : found->second.get();
}

const Object& Context::Owned(Kind kind, uint32_t number) const {
  const Object* const object = Find(kind, number);
  if (object == nullptr) {
    throw CommandError(mlx5::CommandStatus::kBadResource,
                       std::string("this context has no ") + Describe(kind) + " " + std::to_string(number));
  }
  return *object;
}

void Context::Destroy(uint32_t handle) {
  const Object& object = GetAny(handle);
  if (object.kind == Kind::kPd && Find(Kind::kAddressHandle, object.number) != nullptr) {
    throw CommandError(
        mlx5::CommandStatus::kResourceBusy,
        "protection domain " + std::to_string(object.number) + " is still used by an address handle");
  }
  DestroyInHca(object);
  objects_.erase(handle);
}

void Context::DestroyInHca(const Object& object) {
  switch (object.kind) {
    case Kind::kPd:
      return hca().DeallocPd(object.number);
    case Kind::kMkey:
      return hca().DeregisterMemory(object.number);
    case Kind::kWindow:
      return hca().DeallocWindow(object.number);
    case Kind::kUmem:
      return hca().DeregisterUmem(object.number);
    case Kind::kCq:
      return hca().DestroyCq(object.number);
    case Kind::kSrq:
      return hca().DestroySrq(object.number);
    case Kind::kQp:
      return hca().CloseQp(object.number, &object);
    case Kind::kUar:
      munmap(hca().FreeUar(object.number), mlx5::kUarPageBytes);
      return;
    case Kind::kXrcd:
      return hca().CloseXrcd(object.number);
    case Kind::kCardMemory:
      return hca().RemoveCardMemory(object.number);
    case Kind::kAddressHandle:
      return;
  }
}

uint64_t Context::NextUarOffset(uint64_t file_bytes) {
  const auto is_used = [this](uint64_t offset) {
    const uint64_t page = offset / mlx5::kUarPageBytes;
    return page == kClockPage || IsCardMemoryPage(page) ||
           std::any_of(objects_.begin(), objects_.end(), [&](const auto& entry) {
             return entry.second->kind == Kind::kUar &&
                    static_cast<const UarObject&>(*entry.second).file_offset == offset;
           });
  };
  const uint64_t pages = file_bytes / mlx5::kUarPageBytes;  // page 0 is not used
  for (uint64_t i = 1; i < pages; ++i) {
    last_uar_page_ = last_uar_page_ % (pages - 1) + 1;
    const uint64_t offset = last_uar_page_ * mlx5::kUarPageBytes;
    if (!is_used(offset)) return offset;
  }
  throw Errno(ENOMEM, "the limit on file sizes leaves no room for another UAR page; raise ulimit -f");
}

uint16_t Context::NextCardMemoryPage(uint64_t pages, uint64_t file_bytes) const {
  constexpr uint32_t kIndices = 0x10000;
  for (uint32_t first = 0; first + pages <= kIndices; ++first) {
    const uint64_t end = CardMemoryPage(first) + pages;
    const bool contiguous = CardMemoryPage(first + static_cast<uint32_t>(pages) - 1) == end - 1;
    if (end * mlx5::kUarPageBytes > file_bytes) break;
    const auto overlaps = [&](const auto& entry) {
      if (entry.second->kind != Kind::kCardMemory) return false;
      const auto& other = static_cast<const CardMemoryObject&>(*entry.second);
      return first < other.page_index + CardMemoryPages(other.bytes) && other.page_index < first + pages;
    };
    if (contiguous && std::none_of(objects_.begin(), objects_.end(), overlaps))
      return static_cast<uint16_t>(first);
  }
  throw Errno(ENOMEM, "the limit on file sizes leaves no room for card memory; raise ulimit -f");
}

std::shared_ptr<EventPipe> Context::AddPipe(EventSort sort, size_t event_bytes) {
  auto pipe = std::make_shared<EventPipe>(sort, event_bytes, [observer = hca().observer()] {
    if (observer != nullptr) observer->OnLostEvent();
  });
  hca().AddLinkListener(this, [this](uint8_t port, bool up) {
    constexpr uint32_t kPortActive = 9, kPortError = 10;  // values of ibv_event_type
    SendAsync(up ? kPortActive : kPortError, port);
  });
  AddHint(pipe->program_end());
  pipes_.emplace(pipe->id(), pipe);
  pipe->HandOver();
  return pipe;
}

std::shared_ptr<EventPipe> Context::AsyncPipe() const {
  const auto found = std::find_if(pipes_.begin(), pipes_.end(), [](const auto& entry) {
    const EventPipe& pipe = *entry.second;
    return pipe.sort() == EventSort::kVerbs && pipe.event_bytes() == sizeof(ib_uverbs_async_event_desc);
  });
  return found == pipes_.end() ? nullptr : found->second;
}

void Context::SendAsync(uint32_t type, uint64_t element) const {
  ib_uverbs_async_event_desc event{};
  event.element = element;
  event.event_type = type;
  for (const auto& [file, pipe] : pipes_) {
    if (pipe->sort() == EventSort::kVerbs && pipe->event_bytes() == sizeof event) pipe->Write(&event);
  }
}

std::shared_ptr<EventPipe> Context::FindPipe(int fd, EventSort sort, size_t event_bytes) const {
  const FileId file = Identify(fd);
  if (file == FileId{}) throw Errno(EBADF, "the event descriptor is not open");
  const auto found = pipes_.find(file);
  const auto fits = [&](const EventPipe& pipe) {
    return pipe.sort() == sort && (event_bytes == 0 || pipe.event_bytes() == event_bytes);
  };
  if (found == pipes_.end() || !fits(*found->second))
    throw Errno(EINVAL, "the descriptor is no event pipe of this context for such events");
  return found->second;
}

}  // namespace softhca::uverbs
