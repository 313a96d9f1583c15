#pragma once

#include <rdma/ib_user_ioctl_verbs.h>

#include <cstdint>

#include "uverbs/devx_subscriptions.hpp"
#include "uverbs/event_pipe.hpp"

namespace softhca::uverbs {

enum class Kind : uint8_t {
  kPd,
  kMkey,
  kWindow,
  kUar,
  kUmem,
  kCq,
  kSrq,
  kQp,
  kAddressHandle,
  kXrcd,
  kCardMemory
};

/// The object of a handle.
struct Object {
  Object(Kind object_kind, uint32_t object_number) : kind(object_kind), number(object_number) {}
  virtual ~Object() = default;

  Kind kind;
  uint32_t number;    ///< number in the HCA; for an address handle, its protection domain's
  bool devx = false;  ///< made by a firmware command
  DevxSubscriptions subscriptions{};
};

struct UarObject : Object {
  UarObject(uint32_t uar, uint64_t offset) : Object(Kind::kUar, uar), file_offset(offset) {}

  uint64_t file_offset;  ///< place of its page in the device's file
};

struct UmemObject : Object {
  UmemObject(uint32_t umem, bool is_writable) : Object(Kind::kUmem, umem), writable(is_writable) {}

  bool writable;
};

struct CardMemoryObject : Object {
  CardMemoryObject(uint32_t memory, uint16_t page, uint64_t length)
      : Object(Kind::kCardMemory, memory), page_index(page), bytes(length) {}

  uint16_t page_index;  ///< index of its first page among the pages of card memory in the device's file
  uint64_t bytes;       ///< size that the program asked for
};

struct CqObject : Object {
  CqObject(EventSource completion_events, EventSource error_events)
      : Object(Kind::kCq, 0), completions(std::move(completion_events)), errors(std::move(error_events)) {}

  EventSource completions;
  EventSource errors;
};

struct SrqObject : Object {
  SrqObject(EventSource limit_events, uint32_t depth, uint32_t segments)
      : Object(Kind::kSrq, 0), events(std::move(limit_events)), max_wr(depth), max_sge(segments) {}

  EventSource events;
  uint32_t max_wr;
  uint32_t max_sge;
};

struct QpObject : Object {
  QpObject(EventSource qp_events, const ib_uverbs_qp_cap& capacity, bool all_signaled)
      : Object(Kind::kQp, 0), events(std::move(qp_events)), cap(capacity), signal_all(all_signaled) {}

  EventSource events;
  ib_uverbs_qp_cap cap;
  bool signal_all;
  uint32_t access = 0;  ///< access rights of the peer
};

}  // namespace softhca::uverbs
