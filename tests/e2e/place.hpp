#pragma once

#include <cstddef>
#include <memory>

#include "warpverbs/host/endpoint.hpp"

/// Places the memory and queues of tests: on the host, or on fake GPUs in programs that link gpu_place.cpp.
namespace warpverbs::e2e {

/// Zeroed memory that tests may access while it lives.
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

/// Returns the configuration with its queues where the tests have them.
host::EndpointConfig Placed(host::EndpointConfig config);

}  // namespace warpverbs::e2e
