#include "locked_memory.hpp"

#include <sys/resource.h>

#include <cerrno>

namespace warpverbs::host {

std::string PinningRemedy(int error_number) {
  if (error_number != ENOMEM) {
    return "Check that the address lies in mapped, writable memory and that the device supports the access "
           "asked for";
  }
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string now =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur / 1024) + " KiB";
  return "Raise the limit on locked memory, RLIMIT_MEMLOCK, which is now " + now +
         " (`ulimit -l unlimited`, or memlock in /etc/security/limits.conf)";
}

}  // namespace warpverbs::host
