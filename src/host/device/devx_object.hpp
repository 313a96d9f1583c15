#pragma once

#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/handle.hpp"
#include "warpverbs/mlx5/commands.hpp"

namespace warpverbs::inline v0_2::host {

/// A firmware object, created by a DEVX command and destroyed with its owner.
class DevxObject {
 public:
  /// @param object  name of the object in errors: "the completion queue"
  /// @param create  mailbox of its CREATE command
  /// @errors  Error: the firmware's status and syndrome
  template <size_t kBytes>
  DevxObject(ibv_context* context, const char* object, const mlx5::Mailbox<kBytes>& create)
      : DevxObject(context, object, create.data(), kBytes) {}

  uint32_t number() const { return number_; }  ///< qpn or cqn
  mlx5dv_devx_obj* object() const { return object_.get(); }

  /// @param step  name of the command in errors: "move to RTR"
  /// @errors  Error
  template <size_t kBytes>
  void Modify(const char* step, const mlx5::Mailbox<kBytes>& in) {
    Modify(step, in.data(), kBytes);
  }

  /// @errors  Error
  template <size_t kIn, size_t kOut>
  void Query(const mlx5::Mailbox<kIn>& in, mlx5::Mailbox<kOut>& out) const {
    Query(in.data(), kIn, out.data(), kOut);
  }

 private:
  DevxObject(ibv_context* context, const char* object, const void* in, size_t in_bytes);
  void Modify(const char* step, const void* in, size_t in_bytes);
  void Query(const void* in, size_t in_bytes, void* out, size_t out_bytes) const;

  std::string name_;  ///< name in errors
  Handle<mlx5dv_devx_obj, mlx5dv_devx_obj_destroy> object_;
  uint32_t number_ = 0;
};

}  // namespace warpverbs::inline v0_2::host
