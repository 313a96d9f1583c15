#pragma once

#include <memory>
#include <string>
#include <vector>

#include "messages.hpp"

namespace interop {

/// One side of a test: executes commands with one queue pair on this machine's first RDMA device.
///
/// Uses libibverbs only. Not thread-safe.
class Party {
 public:
  /// @errors  std::runtime_error: there is no RDMA device, or it cannot be opened
  Party();
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  Answer Execute(const Command& command);

  /// Destroys the queue pair, for example of a driver that has disconnected.
  void Close();

 private:
  template <class T>
  using Owned = std::unique_ptr<T, int (*)(T*)>;

  Answer Do(const Open& open);
  Answer Do(const Connect& connect);
  Answer Do(const PostSend& post);
  Answer Do(const Bind& bind);
  Answer Do(const PostReceive& post);
  Answer Do(const Poll& poll);
  Answer Do(const Arm& arm);
  Answer Do(const AwaitEvent& await);
  Answer Do(const Sum& sum);
  Answer Do(const Store& store);
  Answer Do(const Load& load);
  Answer Do(const QueryState& query);
  Answer Do(const RunProgram& program);

  bool FindAddress(Family family);
  int Initialise(const Connect& connect);
  int MakeReady(const Connect& connect);
  int Start(const Connect& connect);

  Owned<ibv_context> context_{nullptr, ibv_close_device};
  Owned<ibv_pd> domain_{nullptr, ibv_dealloc_pd};
  Owned<ibv_comp_channel> channel_{nullptr, ibv_destroy_comp_channel};
  std::vector<uint8_t> region_;
  Owned<ibv_mr> registration_{nullptr, ibv_dereg_mr};
  Owned<ibv_mw> window_{nullptr, ibv_dealloc_mw};
  Owned<ibv_cq> completions_{nullptr, ibv_destroy_cq};
  Owned<ibv_qp> pair_{nullptr, ibv_destroy_qp};
  Owned<ibv_ah> datagram_route_{nullptr, ibv_destroy_ah};
  Address own_{};
  Address peer_{};
  uint8_t gid_index_ = 0;
};

}  // namespace interop
