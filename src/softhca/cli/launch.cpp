#include "cli/launch.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "cli/build_info.hpp"
#include "uverbs/sysfs_tree.hpp"

namespace softhca {
namespace {

namespace fs = std::filesystem;

/// A folder that is gone when its owner is.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((fs::temp_directory_path() / "softhca.XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
      throw std::system_error(errno, std::generic_category(), "cannot create " + path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The signals that end programs; blocked here, so that the launcher waits for them and for its child in one
/// place.
class Signals {
 public:
  Signals() {
    sigemptyset(&waited_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&waited_, signal);
    sigprocmask(SIG_BLOCK, &waited_, &original_);
  }

  const sigset_t& original() const { return original_; }

  /// Passes signals on to the child until it ends.
  int WaitFor(pid_t child) const {
    for (;;) {
      siginfo_t info;
      const int signal = sigwaitinfo(&waited_, &info);
      int status = 0;
      if (waitpid(child, &status, WNOHANG) == child) return status;
      // What a terminal sends, it sends to the child too.
      if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) kill(child, signal);
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
  throw std::runtime_error("libsofthca.so is neither beside the launcher nor where an installation has it");
}

void SetEnvironment(const Settings& settings) {
  std::string preload = build_info::kSanitizerRuntime;
  const char* const others = getenv("LD_PRELOAD");
  for (const std::string& library : {FindLibrary().string(), std::string(others == nullptr ? "" : others)}) {
    if (!preload.empty() && !library.empty()) preload += ':';
    preload += library;
  }
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("SYSFS_PATH", settings.tree.c_str(), 1);
  setenv(kSettingsVariable, ToText(settings).c_str(), 1);
}

/// @return  the errno of a program that cannot be started
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
  const TemporaryFolder tree;
  Settings settings = options.settings;
  settings.tree = tree.path();
  BuildSysfsTree(settings.tree, MakeDevices(settings));
  SetEnvironment(settings);
  const Signals signals;
  pid_t child = 0;
  if (const int error = Spawn(options.program, signals, child); error != 0) {
    std::fprintf(stderr, "softhca: cannot run %s: %s\n", options.program[0].c_str(), std::strerror(error));
    return error == ENOENT ? 127 : 126;
  }
  const int status = signals.WaitFor(child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int Launch(const Options& options) {
  try {
    return Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "softhca: %s\n", error.what());
    return 1;
  }
}

}  // namespace softhca
