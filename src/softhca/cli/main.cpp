#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "cli/build_info.hpp"
#include "cli/options.hpp"
#include "cli/temporary_folder.hpp"
#include "setup/settings.hpp"
#include "wire/address_block.hpp"

namespace softhca {
namespace {

namespace fs = std::filesystem;

/// Blocks the signals that end programs. The launcher waits for them and for its child in one place, so no
/// signal ends it before it has cleaned up.
class Signals {
 public:
  Signals() {
    sigfillset(&waited_);
    for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
      sigdelset(&waited_, fault);
    for (const int other : {SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH}) sigdelset(&waited_, other);
    signal(SIGCHLD, SIG_DFL);  // a parent that ignores it leaves no child to wait for
    sigprocmask(SIG_BLOCK, &waited_, &original_);
  }

  const sigset_t& original() const { return original_; }

  /// Forwards signals to the child until it ends.
  ///
  /// @return  the child's status, as waitpid() reports it
  int WaitFor(pid_t child) const {
    for (;;) {
      siginfo_t info;
      const int signal = sigwaitinfo(&waited_, &info);
      int status = 0;
      const pid_t ended = waitpid(child, &status, WNOHANG);
      if (ended == child) return status;
      if (ended < 0) throw std::system_error(errno, std::generic_category(), "cannot wait for the program");
      // A terminal sends Ctrl-C and Ctrl-\ to the child, too.
      const bool typed = info.si_code == SI_KERNEL && (signal == SIGINT || signal == SIGQUIT);
      if (signal > 0 && signal != SIGCHLD && !typed) kill(child, signal);
    }
  }

 private:
  sigset_t waited_;
  sigset_t original_;
};

fs::path FindLibrary() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& candidate : {folder / "libsofthca.so", folder / build_info::kInstalledLibrary}) {
    if (fs::exists(candidate)) return fs::canonical(candidate);
  }
  throw std::runtime_error("cannot find libsofthca.so beside the launcher or in " +
                           std::string(build_info::kInstalledLibrary));
}

/// Returns whether LD_PRELOAD can hold the path: the loader splits the list at spaces and colons, without
/// quotes.
bool IsPreloadable(const std::string& path) { return path.find_first_of(" :") == std::string::npos; }

/// Returns a path of the library that LD_PRELOAD can hold; links it into `tree` if necessary.
std::string LinkLibrary(const std::string& tree) {
  std::string library = FindLibrary();
  if (IsPreloadable(library)) return library;
  std::string link = tree + "/libsofthca.so";
  if (!IsPreloadable(link)) {
    throw std::runtime_error("the loader cannot preload " + library + ": it contains a space or a colon" +
                             "; set TMPDIR to a folder without them");
  }
  fs::create_symlink(library, link);
  return link;
}

/// Makes UCX create its queues by verbs, unless the user has chosen otherwise: where event channels exist, it
/// takes for granted that firmware commands create every kind of receive queue, and aborts.
///
/// @source  UCX v1.13.1, src/uct/ib/rc/accel/rc_mlx5_common.c, uct_rc_mlx5_common_iface_init_rx()
void KeepUcxToVerbs() { setenv("UCX_IB_MLX5_DEVX_OBJECTS", "", 0); }

/// Makes CUDA load kernels when the program starts, unless the user has chosen otherwise. By default the
/// first launch of a kernel loads it, and waits for the kernels that run; such a kernel may wait for a NIC,
/// which is a thread that copies by the same driver and waits, too. A card needs no driver.
void LoadKernelsAtTheStart() { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

void SetEnvironment(const Settings& settings) {
  LoadKernelsAtTheStart();
  if (settings.devx_events) KeepUcxToVerbs();
  std::string preload = build_info::kSanitizerRuntime;
  const char* const others = getenv("LD_PRELOAD");
  for (const std::string& library :
       {LinkLibrary(settings.tree), std::string(others == nullptr ? "" : others)}) {
    if (!preload.empty() && !library.empty()) preload += ':';
    preload += library;
  }
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("SYSFS_PATH", settings.tree.c_str(), 1);
  setenv(kSettingsVariable, Serialize(settings).c_str(), 1);
}

/// Finds a program as execvp() does.
///
/// @return  empty if no folder of PATH has it
fs::path FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path candidate = fs::path(folder) / name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

/// Warns of a set-uid or set-gid program: the loader preloads nothing into it.
void WarnOfOtherRights(const std::string& program) {
  struct stat status;
  if (stat(FindProgram(program).c_str(), &status) != 0) return;
  const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != getuid();
  const bool other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getgid();
  if (!other_user && !other_group) return;
  std::fprintf(stderr, "softhca: warning: %s is set-uid or set-gid, so it will see no devices\n",
               program.c_str());
}

/// Starts the program with the original signal mask.
///
/// @return  0, or the errno of the failure
int Spawn(const std::vector<std::string>& program, const Signals& signals, pid_t& child) {
  std::vector<char*> arguments;
  arguments.reserve(program.size() + 1);
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &signals.original());
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = posix_spawnp(&child, arguments[0], nullptr, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

int Run(const Options& options) {
  const Signals signals;
  const TemporaryFolder folder;
  const BlockClaim claim = BlockClaim::Reserve();
  Settings settings = options.settings;
  settings.tree = folder.path() + "/launcher";  // other processes create theirs beside it
  settings.block = claim.block();
  BuildSysfsTree(settings.tree, MakeDevices(settings));
  SetEnvironment(settings);
  WarnOfOtherRights(options.program[0]);
  pid_t child = 0;
  if (const int error = Spawn(options.program, signals, child); error != 0) {
    std::fprintf(stderr, "softhca: cannot run %s: %s\n", options.program[0].c_str(), std::strerror(error));
    return error == ENOENT ? 127 : 126;
  }
  const int status = signals.WaitFor(child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Runs the program on the devices and waits for it. Forwards the signals that end programs.
///
/// @return  the program's exit code, or 128 + the signal that ended it; 127: the program does not exist;
///          126: it cannot be executed; 1: the devices cannot be set up
int Launch(const Options& options) {
  try {
    return Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "softhca: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace softhca

int main(int argc, char** argv) {
  const auto command = softhca::ParseCommandLine(argc, argv);
  if (const auto* const message = std::get_if<softhca::Message>(&command)) {
    std::fputs(message->text.c_str(), message->exit_code == 0 ? stdout : stderr);
    return message->exit_code;
  }
  return softhca::Launch(std::get<softhca::Options>(command));
}
