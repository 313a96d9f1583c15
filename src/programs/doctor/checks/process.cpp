#include "machine/process.hpp"

#include <cerrno>
#include <cstring>

#include "doctor/check.hpp"

namespace warpverbs::programs {
namespace {

constexpr unsigned kIpcLock = 14;  // CAP_IPC_LOCK
constexpr uint64_t kMebibyte = 1 << 20;
constexpr uint64_t kFewQueues = kMebibyte;          // about forty endpoints of 20 KB, without data
constexpr uint64_t kSomeData = 1024 * kMebibyte;    // less is too little for the buffers of a model
constexpr uint64_t kContainerShm = 64 * kMebibyte;  // Docker's default

std::string Size(uint64_t bytes) {
  return bytes >= kMebibyte ? std::to_string(bytes / kMebibyte) + " MiB"
                            : std::to_string(bytes / 1024) + " KiB";
}

/// Adds why a device file does not open, and the remedy.
void AddRefusal(const std::string& path, int error, Findings& findings) {
  const std::string found = path + " does not open: " + strerrordesc_np(error);
  if (error == EACCES)
    findings.Fail(found,
                  "Give this user read and write permission by a udev rule or a group, or run as root");
  else if (error == EPERM)
    findings.Fail(found, "Pass it to the container (`--device " + path + "`)");
  else
    findings.Fail(found, "Look for mlx5 and ib_uverbs in the kernel log (dmesg)");
}

}  // namespace

Finding CheckMemlock(const Machine& machine) {
  const uint64_t limit = machine.process.locked_bytes;
  if (limit == kUnlimited) return {Verdict::kPass, "unlimited", ""};
  if (HasCapability(machine.files, kIpcLock))
    return {Verdict::kPass, Size(limit) + ", but CAP_IPC_LOCK lifts the limit for this process", ""};
  const std::string remedy =
      "Raise RLIMIT_MEMLOCK: `* - memlock unlimited` in /etc/security/limits.conf, LimitMEMLOCK=infinity "
      "for a service, `--ulimit memlock=-1` for a container";
  if (limit < kFewQueues) return {Verdict::kFail, Size(limit) + " is too little for queues", remedy};
  if (limit < kSomeData) return {Verdict::kWarn, Size(limit) + " is little for data", remedy};
  return {Verdict::kPass, Size(limit), ""};
}

Finding CheckIpcLock(const Machine& machine) {
  if (HasCapability(machine.files, kIpcLock)) return {Verdict::kPass, "this process has CAP_IPC_LOCK", ""};
  if (machine.process.locked_bytes == kUnlimited)
    return Skip("locked memory is unlimited without CAP_IPC_LOCK");
  if (!InContainer(machine.files)) return Skip("outside a container, raise the limit itself");
  return {Verdict::kWarn, "this container lacks CAP_IPC_LOCK, and locked memory is limited",
          "Start the container with `--ulimit memlock=-1` or `--cap-add IPC_LOCK`"};
}

Finding CheckDeviceFiles(const Machine& machine) {
  Findings findings;
  for (const std::string& name : machine.files.List("/sys/class/infiniband_verbs")) {
    if (!name.starts_with("uverbs")) continue;
    const std::string path = "/dev/infiniband/" + name;
    if (!machine.files.Exists(path)) {
      findings.Fail(path + " is missing",
                    "Pass it to the container (`--device " + path + "`), or check udev");
      continue;
    }
    const int error = machine.files.TryOpen(path);
    if (error == 0)
      findings.Pass(path + " opens");
    else
      AddRefusal(path, error, findings);
  }
  return findings.empty() ? Skip("the kernel has no RDMA device") : findings.Combine();
}

Finding CheckSharedMemory(const Machine& machine) {
  const auto bytes = machine.process.shared_bytes;
  const std::string remedy =
      "Start the container with `--shm-size=8g` or `--ipc=host`: NCCL and frameworks need it";
  if (!bytes) return {Verdict::kWarn, "/dev/shm does not exist", "Mount a tmpfs on /dev/shm"};
  if (*bytes <= kContainerShm) return {Verdict::kWarn, "/dev/shm has " + Size(*bytes), remedy};
  return {Verdict::kPass, "/dev/shm has " + Size(*bytes), ""};
}

}  // namespace warpverbs::programs
