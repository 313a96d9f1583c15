#include "memory/locked_memory.hpp"

#include <sys/resource.h>

#include <cerrno>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

bool IsOutOfResources(int error_number) {
  return error_number == ENOMEM || error_number == EAGAIN || error_number == ENOSPC;
}

std::string PinningReason(int error_number) {
  if (!IsOutOfResources(error_number)) return Error::DescribeErrno(error_number);
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string now =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur / 1024) + " KiB";
  return Error::DescribeErrno(error_number) + ", where the limit on locked memory, RLIMIT_MEMLOCK, is " + now;
}

std::string PinningRemedy(int error_number) {
  if (error_number == ENOMEM) {
    return "Raise RLIMIT_MEMLOCK (`ulimit -l unlimited`, or memlock in /etc/security/limits.conf)";
  }
  return "Check that the address is in mapped, writable memory and that the device supports the access "
         "asked for";
}

}  // namespace warpverbs::inline v0_2::host
