#include "machine/kernel.hpp"

#include <cstdlib>
#include <sstream>

namespace warpverbs::programs {

bool HasModule(const Files& files, const std::string& name) {
  if (files.Exists("/sys/module/" + name)) return true;
  const std::string release = files.Text("/proc/sys/kernel/osrelease");
  const std::string built_in = files.Text("/lib/modules/" + release + "/modules.builtin") + "\n";
  return built_in.find("/" + name + ".ko\n") != std::string::npos;
}

bool HasCapability(const Files& files, unsigned number) {
  uint64_t first = 1, outside = 1, count = 0;
  std::istringstream map(files.Text("/proc/self/uid_map"));
  map >> first >> outside >> count;
  if (first != 0 || outside != 0 || count < 0xffffffff) return false;
  const std::string status = "\n" + files.Text("/proc/self/status");
  constexpr std::string_view kKey = "\nCapEff:";
  const size_t at = status.find(kKey);
  if (at == std::string::npos) return false;
  return (std::strtoull(status.c_str() + at + kKey.size(), nullptr, 16) >> number & 1) != 0;
}

bool InContainer(const Files& files) {
  if (files.Exists("/.dockerenv") || files.Exists("/run/.containerenv")) return true;
  const std::string groups = files.Text("/proc/1/cgroup");
  return groups.find("docker") != std::string::npos || groups.find("kubepods") != std::string::npos;
}

}  // namespace warpverbs::programs
