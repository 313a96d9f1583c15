#pragma once

#include <cstddef>
#include <memory>

#include "warpverbs/host/endpoint.hpp"

/// Where the memory and the queues of tests lie: the host's, or fake GPUs' in programs that link
/// gpu_place.cpp.
namespace warpverbs::e2e {

/// Memory, zeroed, that tests may touch as long as it lives.
class Memory {
 public:
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }

 private:
  struct Owner;

  std::unique_ptr<Owner> owner_;
  std::byte* data_;
};

/// The same endpoint, with its queues where the tests have them.
host::EndpointConfig Placed(host::EndpointConfig config);

}  // namespace warpverbs::e2e
