#include "device/device_attributes.hpp"

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

ibv_device_attr QueryAttributes(ibv_context* context) {
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(context, &attributes)) {
    throw Error::FromErrno("query device", context->device->name, error,
                           "Check that the device is healthy (dmesg)");
  }
  return attributes;
}

}  // namespace warpverbs::host
