#include "preload/process.hpp"

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "observe/log.hpp"
#include "observe/observer_list.hpp"
#include "observe/patient_write.hpp"
#include "observe/pcap.hpp"
#include "observe/stats.hpp"
#include "observe/trace.hpp"
#include "preload/real.hpp"
#include "setup/network.hpp"
#include "sync/mutex.hpp"
#include "ucma/device.hpp"
#include "uverbs/context.hpp"
#include "uverbs/descriptors.hpp"
#include "uverbs/method.hpp"

namespace softhca::preload {
using namespace uverbs;  // NOLINT(google-build-using-namespace): this file is the roof over the commands
namespace {

/// The devices of this process and the files that have them open. Never destroyed: the program may call until
/// its very end.
struct Process {
  const pid_t owner = getpid();
  std::unique_ptr<Observer> observer;  // null: none; outlives the devices
  std::unique_ptr<Engine> engine;
  WireNetwork* network = nullptr;  // owned by the engine
  sync::Mutex mutex;
  std::map<FileId, std::shared_ptr<Context>> contexts WARPVERBS_GUARDED_BY(mutex);
  std::map<FileId, std::shared_ptr<ucma::File>> event_channels WARPVERBS_GUARDED_BY(mutex);
  std::atomic<ucma::Device*> connection_manager{nullptr};  // made under the mutex when the program opens it
  /// Event pipes of which the program has closed a descriptor since descriptors were last counted.
  std::map<FileId, uint32_t> closed_pipes WARPVERBS_GUARDED_BY(mutex);
  size_t open_descriptors WARPVERBS_GUARDED_BY(mutex) = 0;  // when they were last counted
};

std::atomic<Process*> g_process{nullptr};
sync::Mutex g_making;

/// Returns the process; null before it is made, and in a child that shares its parent's memory: what that
/// child closes stays open in the parent.
Process* Current() {
  Process* const process = g_process;
  return process != nullptr && process->owner == getpid() ? process : nullptr;
}

/// Forgets the hardware in a forked child, which has a copy of the memory but not the threads.
void ForgetDevicesInChild() {
  g_process = nullptr;
  new (&g_making) sync::Mutex;
}

/// Makes the observers that `--log`, `--stats` and `--trace` ask for, and that which ends the capture.
///
/// @return  null if there are none
/// @errors  std::exception: a file cannot be written, or an option is malformed; a sentence
std::unique_ptr<Observer> MakeObserver(const Settings& settings, const std::shared_ptr<PcapWriter>& capture) {
  auto observers = std::make_unique<ObserverList>();
  if (!settings.log.empty()) observers->Add(std::make_unique<Log>(ParseLog(settings.log)));
  if (settings.stats) observers->Add(std::make_unique<Stats>(settings.stats_file));
  if (!settings.trace.empty()) observers->Add(std::make_unique<Trace>(settings.trace));
  if (capture != nullptr) observers->Add(std::make_unique<CaptureEnd>(capture));
  if (observers->empty()) return nullptr;
  return observers;
}

void MakeEngine(Process& process) {
  const Settings& settings = *OwnSettings();
  const auto capture =
      settings.pcap.empty() ? nullptr : std::make_shared<PcapWriter>(settings.pcap, settings.link);
  process.observer = MakeObserver(settings, capture);
  std::vector<std::unique_ptr<Hca>> devices;
  std::vector<Hca*> ends;
  for (DeviceConfig& config : MakeDevices(settings)) {
    // Random, so that no other user of the host can guess them.
    config.first_key =
        settings.first_key < 0 ? std::random_device{}() : static_cast<uint32_t>(settings.first_key);
    devices.push_back(std::make_unique<Hca>(std::move(config)));
    devices.back()->SetObserver(process.observer.get());
    ends.push_back(devices.back().get());
  }
  auto network = MakeNetwork(settings, ends, capture);
  process.network = network.get();
  process.engine =
      std::make_unique<Engine>(std::move(devices), AddIncidents(std::move(network), settings, ends));
}

Process& MakeProcess() {
  const sync::LockGuard lock(g_making);
  if (g_process == nullptr) {
    auto process = std::make_unique<Process>();
    MakeEngine(*process);
    g_process = process.release();
  }
  if (Current() == nullptr) throw Errno(EAGAIN, "a child that shares its parent's memory has no devices");
  return *g_process;
}

std::shared_ptr<Context> FindContext(FileId file) {
  Process* const process = Current();
  if (process == nullptr) return nullptr;
  const sync::LockGuard lock(process->mutex);
  const auto found = process->contexts.find(file);
  return found == process->contexts.end() ? nullptr : found->second;
}

std::shared_ptr<ucma::File> FindEventChannel(FileId file) {
  Process* const process = Current();
  if (process == nullptr) return nullptr;
  const sync::LockGuard lock(process->mutex);
  const auto found = process->event_channels.find(file);
  return found == process->event_channels.end() ? nullptr : found->second;
}

void AtProcessExit() {
  Process* const process = Current();
  if (process == nullptr) return;
  process->engine->Stop();
  ucma::Device* const connection_manager = process->connection_manager;
  if (process->observer == nullptr && connection_manager == nullptr) return;
  // A signal handler may have interrupted a command and called exit(): then the lock is never released.
  const auto lock = process->engine->PauseFor(std::chrono::seconds(1));
  if (lock.owns_lock() && connection_manager != nullptr) connection_manager->CloseAll();
  if (process->observer == nullptr) return;
  if (!lock.owns_lock()) {
    PrintError("no counts and no end of the log, trace or capture: a command is still running");
    return;
  }
  process->observer->OnEnd(process->engine->devices());
}

/// Registers the handlers when the library is loaded. Handlers of the exit run in reverse order, so this one
/// runs after the program's. A later first use could be interrupted by another thread's fork().
__attribute__((constructor)) void RegisterHandlers() {
  if (LaunchSettings() == nullptr) return;
  std::atexit(AtProcessExit);
  pthread_atfork(nullptr, nullptr, ForgetDevicesInChild);
}

/// Counts the descriptors of each file in this process, and remembers them so that their close() is noticed.
///
/// @return  the number of all descriptors; 0: unknown, because /proc is missing or no descriptor is free.
///          Then each count is UINT32_MAX: the file may still be in use.
size_t CountDescriptors(std::map<FileId, uint32_t>& files) {
  DIR* const folder = Real().opendir("/proc/self/fd");
  for (auto& [unused, count] : files) count = folder == nullptr ? UINT32_MAX : 0;
  if (folder == nullptr) return 0;
  size_t all = 0;
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    ++all;
    const int fd = std::atoi(entry->d_name);
    const auto found = files.find(Identify(fd));
    if (found == files.end()) continue;
    AddHint(fd);
    ++found->second;
  }
  closedir(folder);
  return all;
}

void ForgetEventChannel(Process& process, FileId file) {
  std::map<FileId, uint32_t> counts{{file, 0}};
  CountDescriptors(counts);
  if (counts[file] > ucma::kOwnFileEnds) return;
  std::shared_ptr<ucma::File> channel;
  {
    const sync::LockGuard lock(process.mutex);
    const auto found = process.event_channels.find(file);
    if (found == process.event_channels.end()) return;
    channel = std::move(found->second);
    process.event_channels.erase(found);
  }
  const auto lock = process.engine->Pause();
  process.connection_manager.load()->Close(*channel);
}

/// Takes a context out of the process if the program has closed its last descriptor.
///
/// @return  the context; null if a descriptor is still open, or the descriptors cannot be counted
std::shared_ptr<Context> TakeClosedContext(Process& process, FileId file) WARPVERBS_REQUIRES(process.mutex) {
  std::map<FileId, uint32_t> counts{{file, 0}};
  process.open_descriptors = CountDescriptors(counts);
  if (counts[file] != 0) return nullptr;
  const auto found = process.contexts.find(file);
  auto context = std::move(found->second);
  process.contexts.erase(found);
  return context;
}

/// Notes that the program has closed a descriptor of a pipe, and counts the descriptors of all such pipes.
///
/// Counting looks at every descriptor of the process. So it waits for more pipes while thousands of
/// descriptors are open: closing thousands of channels takes time in proportion to their number. Until then
/// each of these pipes keeps two descriptors of softhca's own.
///
/// @return  empty until the descriptors are counted
std::map<FileId, uint32_t> CountClosedPipes(Process& process, FileId closed) {
  constexpr size_t kDescriptorsPerPipe = 256;
  const sync::LockGuard lock(process.mutex);
  process.closed_pipes.emplace(closed, 0);
  if (process.closed_pipes.size() * kDescriptorsPerPipe < process.open_descriptors) return {};
  process.open_descriptors = CountDescriptors(process.closed_pipes);
  if (process.open_descriptors == 0) return {};  // the next close tries again
  return std::exchange(process.closed_pipes, {});
}

/// Returns all contexts. Destroy them with no lock held: a last reference may go.
std::vector<std::shared_ptr<Context>> ContextsOf(Process& process) {
  std::vector<std::shared_ptr<Context>> contexts;
  const sync::LockGuard lock(process.mutex);
  contexts.reserve(process.contexts.size());
  for (const auto& [unused, context] : process.contexts) contexts.push_back(context);
  return contexts;
}

bool HasPipe(const std::shared_ptr<Context>& context, FileId file) {
  const auto lock = context->engine().Pause();
  return context->HasPipe(file);
}

void ForgetFile(Process& process, FileId file) {
  if (FindEventChannel(file) != nullptr) return ForgetEventChannel(process, file);
  {
    std::shared_ptr<Context> closed;  // destroyed after the lock, with its objects
    const sync::LockGuard lock(process.mutex);
    if (process.contexts.contains(file)) {
      closed = TakeClosedContext(process, file);
      return;
    }
  }
  if (std::ranges::none_of(ContextsOf(process), [&](const auto& context) { return HasPipe(context, file); }))
    return;
  const std::map<FileId, uint32_t> pipes = CountClosedPipes(process, file);
  if (pipes.empty()) return;
  // Again: a pipe may be of a context that was opened meanwhile.
  for (const auto& context : ContextsOf(process)) {
    const auto lock = context->engine().Pause();
    for (const auto& [pipe, descriptors] : pipes) {
      if (descriptors <= kOwnPipeEnds) context->ForgetPipe(pipe);
    }
  }
}

void Report(Engine& engine, const Hca& hca, const char* command, int error, const char* why) {
  // Regular results: an empty table entry, rdma-core's probe for write commands, no event.
  const bool regular = error == ENODATA || error == ENOSPC || error == EAGAIN || error == EINTR;
  if (hca.observer() == nullptr || regular) return;
  const auto lock = engine.Pause();
  hca.observer()->OnRefusal(hca, command, strerrorname_np(error), why);
}

/// Converts an exception to an errno: the program calls from C.
int ErrnoOf(const std::exception& error) {
  if (const auto* const refusal = dynamic_cast<const Errno*>(&error)) return refusal->value();
  if (const auto* const refusal = dynamic_cast<const CommandError*>(&error))
    return ToErrno(refusal->status());
  if (const auto* const failure = dynamic_cast<const std::system_error*>(&error))
    return failure->code().value();
  return ENOMEM;
}

/// Makes a file that stands for an open device.
///
/// @return  its descriptor
int MakeFile(Process& process, uint32_t device, int flags) {
  const int fd = MakeDeviceFile(flags);
  try {
    const sync::LockGuard lock(process.mutex);
    process.contexts.emplace(Identify(fd), std::make_shared<Context>(*process.engine, device));
  } catch (const std::exception&) {
    Real().close(fd);
    throw;
  }
  AddHint(fd);
  return fd;
}

int MakeEventChannel(Process& process, int flags) {
  auto channel = std::make_shared<ucma::File>(flags, [observer = process.observer.get()] {
    if (observer != nullptr) observer->OnLostEvent();
  });
  const sync::LockGuard lock(process.mutex);
  if (process.connection_manager == nullptr)
    process.connection_manager = new ucma::Device(*process.engine, *process.network);
  AddHint(channel->descriptor());
  process.event_channels.emplace(channel->id(), channel);
  channel->HandOver();
  return channel->descriptor();
}

}  // namespace

int OpenNode(const identity::DeviceNode& node, int flags) {
  try {
    if (node == identity::kRdmaCmNode) return MakeEventChannel(MakeProcess(), flags);
    const uint32_t device = node.minor - identity::kUverbsFirstMinor;
    if (device >= LaunchSettings()->devices) throw Errno(ENOENT, "the device does not exist");
    return MakeFile(MakeProcess(), device, flags);
  } catch (const std::exception& error) {
    // The program sees only an errno. The network has printed its own errors.
    if (dynamic_cast<const CommandError*>(&error) == nullptr) PrintError(error.what());
    errno = ErrnoOf(error);
    return -1;
  }
}

Engine* ProcessEngine() {
  const Process* const process = Current();
  return process == nullptr ? nullptr : process->engine.get();
}

void SendAsyncEvent(uint32_t device, uint32_t type, uint8_t port) {
  Process* const process = Current();
  if (process == nullptr) return;
  const auto contexts = ContextsOf(*process);  // destroyed after the lock
  const auto lock = process->engine->Pause();
  for (const auto& context : contexts) {
    if (context->device() == device) context->SendAsync(type, port);
  }
}

identity::DeviceNode NodeOfFile(FileId file) {
  if (const auto context = FindContext(file)) return identity::UverbsNode(context->device());
  return FindEventChannel(file) != nullptr ? identity::kRdmaCmNode : identity::DeviceNode{};
}

int RunIoctl(int fd, void* header) {
  const std::shared_ptr<Context> context = FindContext(Identify(fd));
  if (context == nullptr) return kNotOurs;
  AddHint(fd);  // it may be a duplicate
  const char* name = "malformed command";
  try {
    IoctlRequest request(reinterpret_cast<uint64_t>(header));
    name = Name(request);
    Call call(fd, *context, request);
    Dispatch(call);
    request.WriteBack();
    return 0;
  } catch (const std::exception& error) {
    const int value = ErrnoOf(error);
    Report(context->engine(), context->hca(), name, value, error.what());
    return value;
  }
}

int RunWrite(int fd, const void* data, size_t bytes) {
  const std::shared_ptr<ucma::File> channel = FindEventChannel(Identify(fd));
  if (channel == nullptr) return kNotOurs;
  AddHint(fd);  // it may be a duplicate
  const auto address = reinterpret_cast<uint64_t>(data);
  try {
    ucma::RunCommand(*Current()->connection_manager.load(), *channel, address, bytes);
    return 0;
  } catch (const std::exception& error) {
    const int value = ErrnoOf(error);
    Engine& engine = *Current()->engine;
    Report(engine, *engine.devices().front(), ucma::CommandName(address, bytes), value, error.what());
    return value;
  }
}

int CloseOurs(int fd) {
  Process* const process = Current();
  struct stat status;
  // Closes another file that has the number by now without a lock.
  if (process == nullptr || Real().fstat(fd, &status) != 0 ||
      (!S_ISFIFO(status.st_mode) && !IsDeviceFile(status.st_mode))) {
    return Real().close(fd);
  }
  RemoveHint(fd);  // before another thread can get the number
  const int result = Real().close(fd);
  const int error = errno;
  if (result == 0) ForgetFile(*process, {status.st_dev, status.st_ino});
  errno = error;
  return result;
}

}  // namespace softhca::preload
