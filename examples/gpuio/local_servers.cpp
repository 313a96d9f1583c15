#include "local_servers.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <regex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "warpverbs/host/error.hpp"

namespace host = warpverbs::host;

namespace {

constexpr std::chrono::milliseconds kPoll(2);
constexpr std::chrono::seconds kStartTime(60), kStopTime(20);
constexpr int kNotFound = 127;  // as shells have it

volatile sig_atomic_t g_signal = 0;

/// Returns the number behind a name in the counters of a program; 0: it printed none.
uint64_t NumberAfter(const std::string& text, const std::string& name) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(name + " ([0-9]+)")) ? std::stoull(match[1]) : 0;
}

/// Returns a program of the same folder as this one, or else where it was built.
std::string Program(const std::filesystem::path& built) {
  std::error_code failure;
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe", failure).parent_path() / built.filename();
  return std::filesystem::exists(beside, failure) ? beside.string() : built.string();
}

std::string DescribeEnd(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status)) + " ended it";
  if (WEXITSTATUS(status) == kNotFound) return "it is not on PATH";
  return "it ended with status " + std::to_string(WEXITSTATUS(status));
}

/// Replaces this process, a child, by a program.
[[noreturn]] void Execute(const std::vector<char*>& arguments, int output, pid_t parent) {
  setpgid(0, 0);  // the keys of a terminal are for the parent, which ends its children in order
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() == parent && dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0)
    execvp(arguments[0], arguments.data());
  _exit(kNotFound);
}

}  // namespace

void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = [](int number) { g_signal = number; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

void ThrowIfInterrupted() {
  if (g_signal != 0) throw std::runtime_error("Ended by signal " + std::to_string(g_signal) + ".");
}

TemporaryFolder::TemporaryFolder() {
  const auto parent = std::filesystem::temp_directory_path();
  std::string name = (parent / "warpverbs-gpuio.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw host::Error::FromErrno("create a folder in", parent.string(), errno,
                                 "Name a folder that you may write to");
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Child::Child(std::vector<std::string> command)
    : name_(std::filesystem::path(command.front()).filename().string()),
      output_(memfd_create("output", MFD_CLOEXEC)) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  if (output_ >= 0) pid_ = fork();
  if (pid_ == 0) Execute(arguments, output_, parent);
  if (pid_ > 0) return;
  const int error = errno;
  if (output_ >= 0) close(output_);
  throw host::Error::FromErrno("start", name_, error, "Raise ulimit -u and ulimit -n");
}

Child::~Child() {
  Stop();
  close(output_);
}

std::string Child::Output() const {
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t count = 0;
  while ((count = pread(output_, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0)
    text.append(piece.data(), static_cast<size_t>(count));
  return text;
}

bool Child::HasEnded() {
  if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
  return pid_ < 0;
}

std::string Child::AwaitLine(const std::string& prefix) {
  const auto deadline = std::chrono::steady_clock::now() + kStartTime;
  while (true) {
    ThrowIfInterrupted();
    const bool has_ended = HasEnded();  // first: afterwards nothing is printed any more
    const std::string output = "\n" + Output();
    const size_t line = output.find("\n" + prefix);
    const size_t end = line == std::string::npos ? line : output.find('\n', line + 1);
    if (end != std::string::npos)
      return output.substr(line + 1 + prefix.size(), end - line - 1 - prefix.size());
    if (has_ended || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("Cannot start " + name_ + ": " +
                               (has_ended ? DescribeEnd(status_) : "it is not ready after a minute") +
                               ". It printed:" + (output == "\n" ? " nothing" : output));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

std::string Child::Stop() {
  const auto deadline = std::chrono::steady_clock::now() + kStopTime;
  if (!HasEnded()) kill(pid_, SIGTERM);
  while (!HasEnded()) {
    if (std::chrono::steady_clock::now() > deadline) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(kPoll);
  }
  return Output();
}

ControlFolderRemover::ControlFolderRemover(const std::filesystem::path& mount)
    : folder_(mount / "3fs-virt"), was_there_(std::filesystem::exists(folder_)) {}

ControlFolderRemover::~ControlFolderRemover() {
  std::error_code ignored;
  if (!was_there_) std::filesystem::remove_all(folder_, ignored);
}

LocalServers::LocalServers(const std::filesystem::path& folder, std::vector<std::string> filed_options)
    : control_folder_(folder),
      filed_([&] {
        std::vector<std::string> command{
            Program(FILED), folder.string(), "--listen", "127.0.0.1", "--port", "0", "--stats", "3600"};
        command.insert(command.end(), filed_options.begin(), filed_options.end());
        return command;
      }()),
      disk_(filed_.AwaitLine("disk:    ")),
      port_(filed_.AwaitLine("listening on port ")),
      gpuiod_({Program(GPUIOD), folder.string() + "=127.0.0.1:" + port_, "--stats", "3600"}) {
  gpuiod_.AwaitLine("serving ");
}

Counters LocalServers::Stop() {
  const std::string daemon = gpuiod_.Stop(), server = filed_.Stop();
  return {.written_to_memory = NumberAfter(server, "bytes read"),
          .fetched_from_memory = NumberAfter(server, "bytes written"),
          .zeroed = NumberAfter(daemon, "\"bytes_zeroed\":"),
          .failures = NumberAfter(daemon, "\"failures\":")};
}
