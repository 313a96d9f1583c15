#include "machine/process.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <sstream>

namespace warpverbs::programs {
namespace {

/// The version of rdma-core that introduced a symbol, newest first.
///
/// @source  rdma-core, the .map files of libibverbs and libmlx5 at each tag
struct SymbolAge {
  const char* name;
  const char* version;
  int rdma_core;
};
constexpr SymbolAge kSymbolAges[] = {
    {"mlx5dv_reg_dmabuf_mr", "MLX5_1.25", 54},         {"mlx5dv_create_steering_anchor", "MLX5_1.24", 42},
    {"mlx5dv_devx_alloc_msi_vector", "MLX5_1.23", 40}, {"ibv_query_qp_data_in_order", "IBVERBS_1.14", 36},
    {"ibv_reg_dmabuf_mr", "IBVERBS_1.12", 34},
};

/// Returns the version of an installed Debian package.
std::string PackageVersion(const Files& files, const std::string& package) {
  const std::string all = "\n" + files.ReadOrEmpty("/var/lib/dpkg/status");
  const size_t begin = all.find("\nPackage: " + package + "\n");
  if (begin == std::string::npos) return "";
  const std::string stanza = all.substr(begin, all.find("\n\n", begin) - begin);
  constexpr std::string_view kKey = "\nVersion: ";
  const size_t version = stanza.find(kKey);
  if (version == std::string::npos || stanza.find("\nStatus: install ok installed") == std::string::npos)
    return "";
  const size_t from = version + kKey.size();
  return stanza.substr(from, stanza.find('\n', from) - from);
}

VerbsLibrary InspectVerbs(const Files& files) {
  VerbsLibrary library{.package = PackageVersion(files, "libibverbs1")};
  Dl_info where{};
  if (dladdr(reinterpret_cast<const void*>(&ibv_get_device_list), &where) != 0 && where.dli_fname) {
    const std::unique_ptr<char, void (*)(void*)> path(realpath(where.dli_fname, nullptr), std::free);
    const std::string file = path ? path.get() : where.dli_fname;
    library.file = file.substr(file.rfind('/') + 1);
  }
  for (const SymbolAge& age : kSymbolAges) {
    if (dlvsym(RTLD_DEFAULT, age.name, age.version) == nullptr) continue;
    library.at_least = age.rdma_core;
    break;
  }
  return library;
}

}  // namespace

Process InspectProcess(const Files& files) {
  Process process{.root = geteuid() == 0, .verbs = InspectVerbs(files)};
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    process.locked_bytes = limit.rlim_cur;
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) process.shared_bytes = uint64_t{shared.f_blocks} * shared.f_frsize;
  return process;
}

bool HasModule(const Files& files, const std::string& name) {
  if (files.Exists("/sys/module/" + name)) return true;
  const std::string release = files.ReadOrEmpty("/proc/sys/kernel/osrelease");
  const std::string built_in = files.ReadOrEmpty("/lib/modules/" + release + "/modules.builtin") + "\n";
  return built_in.find("/" + name + ".ko\n") != std::string::npos;
}

bool HasCapability(const Files& files, unsigned number) {
  uint64_t first = 1, outside = 1, count = 0;
  std::istringstream map(files.ReadOrEmpty("/proc/self/uid_map"));
  map >> first >> outside >> count;
  if (first != 0 || outside != 0 || count < 0xffffffff) return false;
  const std::string status = "\n" + files.ReadOrEmpty("/proc/self/status");
  constexpr std::string_view kKey = "\nCapEff:";
  const size_t at = status.find(kKey);
  if (at == std::string::npos) return false;
  return (std::strtoull(status.c_str() + at + kKey.size(), nullptr, 16) >> number & 1) != 0;
}

bool InContainer(const Files& files) {
  if (files.Exists("/.dockerenv") || files.Exists("/run/.containerenv")) return true;
  const std::string groups = files.ReadOrEmpty("/proc/1/cgroup");
  return groups.find("docker") != std::string::npos || groups.find("kubepods") != std::string::npos;
}

}  // namespace warpverbs::programs
