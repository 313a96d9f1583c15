#pragma once

#include <memory>
#include <string>
#include <utility>

#include "gpuio/daemon/guarded_mapping.hpp"
#include "gpuio/ring/consumer.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A ring of an application, as long as an I/O of it is under way.
struct AttachedRing {
  AttachedRing(std::string link_name, std::shared_ptr<GuardedMapping> memory, const RingConfig& config)
      : name(std::move(link_name)),
        mapping(std::move(memory)),
        consumer({mapping->data(), RingEntries(mapping->size())}, config) {}

  const std::string name;
  const std::shared_ptr<GuardedMapping> mapping;
  RingConsumer consumer;
  bool is_closed = false;  ///< no more I/O is started
};

}  // namespace warpverbs::inline v0_2::gpuio
