#include "device/devx_object.hpp"

#include <cerrno>
#include <utility>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::string On(const ibv_context* context, const std::string& object) {
  return object + " on " + context->device->name;
}

}  // namespace

DevxObject::DevxObject(ibv_context* context, const char* object, const void* in, size_t in_bytes)
    : name_(On(context, object)) {
  mlx5::Mailbox<mlx5::kCommandOutBytes> out;
  object_.reset(mlx5dv_devx_obj_create(context, in, in_bytes, out.data(), out.size()));
  if (!object_) throw Error::FromCommand("create", name_, errno, out.data());
  number_ = out.Get(mlx5::command_out::kObjectNumber);
}

void DevxObject::Modify(const char* step, const void* in, size_t in_bytes) {
  mlx5::Mailbox<mlx5::kCommandOutBytes> out;
  if (const int error = mlx5dv_devx_obj_modify(object_.get(), in, in_bytes, out.data(), out.size())) {
    throw Error::FromCommand(step, name_, error, out.data());
  }
}

void DevxObject::Query(const void* in, size_t in_bytes, void* out, size_t out_bytes) const {
  if (const int error = mlx5dv_devx_obj_query(object_.get(), in, in_bytes, out, out_bytes)) {
    throw Error::FromCommand("query", name_, error, out);
  }
}

}  // namespace warpverbs::inline v0_2::host
