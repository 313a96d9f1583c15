#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "soak/rounds/board.hpp"
#include "soak/rounds/plan.hpp"
#include "soak/rounds/troubles.hpp"
#include "soak/rounds/worker.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/transport/status.hpp"

/// Runs rounds of programs under softhca, and disturbs them. Each operation must end once, with the right
/// bytes or with a cause that fits what was done to it, nothing may hang, and nothing may be left.
namespace soak {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

struct Options {
  uint32_t seconds = 60;
  uint64_t seed = 0;
  std::optional<uint64_t> rounds{};  ///< number of rounds that run
  std::optional<uint64_t> round{};   ///< the only one that runs
  std::string kind{};                ///< the kind of rounds that run; empty: any
  uint32_t jobs = 4;
  uint32_t limit = 150;  ///< seconds that a round may take
  bool keep_going = false;
  bool verbose = false;
};

volatile std::sig_atomic_t interrupted = 0;

std::string ReadFile(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Returns where the folders of rounds are: $TMPDIR, or /dev/shm if it has the space, or /tmp.
fs::path ParentFolder(uint32_t jobs) {
  constexpr uintmax_t kRoundBytes = uintmax_t{256} << 20;  // its board, log, trace and capture
  const fs::path memory = "/dev/shm";
  std::error_code error;
  const fs::space_info space = fs::space(memory, error);
  const bool fits = !error && space.available / kRoundBytes >= jobs;
  return getenv("TMPDIR") == nullptr && fits ? memory : fs::temp_directory_path();
}

/// Returns the processes of a group.
std::vector<pid_t> Members(pid_t group) {
  std::vector<pid_t> members;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (getpgid(pid) == group) members.push_back(pid);
  }
  return members;
}

/// Prints the stacks of all threads of a process: by gdb, or by what chaos's own programs do on a signal.
void PrintStacks(pid_t pid) {
  std::printf("--- process %d: %s\n", pid, ReadFile("/proc/" + std::to_string(pid) + "/comm").c_str());
  std::fflush(stdout);
  kill(pid, SIGCONT);
  const std::string gdb = "gdb -p " + std::to_string(pid) +
                          " -batch -ex 'thread apply all bt 40' 2>/dev/null | grep -v '^\\[New LWP'";
  if (std::system("command -v gdb >/dev/null") == 0 && std::system(gdb.c_str()) == 0) return;
  std::error_code gone;
  const std::string self = fs::read_symlink("/proc/self/exe", gone).string();
  if (fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone).string() != self) return;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    syscall(SYS_tgkill, pid, std::stol(task.path().filename().string()), SIGUSR2);
    std::this_thread::sleep_for(milliseconds(50));  // one at a time
  }
}

/// A launcher of a round, and its program.
struct Process {
  pid_t launcher = 0;
  std::optional<int> launcher_status{}, program_status{};
};

/// A round that runs.
class Round {
 public:
  Round(const fs::path& run_folder, uint64_t seed, uint64_t number, seconds limit)
      : seed_(seed),
        number_(number),
        limit_(limit),
        plan_(PlanOf(seed, number)),
        folder_(run_folder / ("round." + std::to_string(number))),
        board_((fs::create_directory(folder_), BoardFile::Create((folder_ / "board").string()))),
        started_(steady_clock::now()),
        pending_(plan_.disruptions) {
    for (uint32_t side = 0; side < plan_.processes; ++side) {
      if (plan_.link_fails) Trouble(side, kLinkDown);
      if (!plan_.limits[side].any()) continue;
      Trouble(side, kLimited);
      board_->counts.Add(Tally::kLimits);
    }
    StartPrograms();
  }

  uint64_t number() const { return number_; }
  const RoundPlan& plan() const { return plan_; }
  const Counts& counts() const { return board_->counts; }
  const std::string& problem() const { return problem_; }
  bool killed_launcher() const { return killed_launcher_; }

  /// Notes the end of a process, which may belong to another round.
  void OnEnd(pid_t pid, int status) {
    for (uint32_t side = 0; side < processes_.size(); ++side) {
      Process& process = processes_[side];
      if (process.launcher == pid) process.launcher_status = status;
      if (board_->sides[side].pid == pid) process.program_status = status;
      if ((process.launcher == pid && !killed_launcher_) || board_->sides[side].pid == pid)
        Trouble(side, kGone);
    }
  }

  /// Disturbs the processes, and watches them.
  ///
  /// @return  whether the round has ended
  bool Advance() {
    StartPrograms();
    Disrupt();
    bool ended = AllStarted();
    for (const Process& process : processes_) ended &= kill(-process.launcher, 0) != 0;
    if (ended) {
      Judge();
      return true;
    }
    for (const Process& process : processes_) {
      if (process.launcher_status && (Unexpected(process) || !AllStarted())) problem_ = "a program failed";
    }
    if (problem_.empty() && steady_clock::now() - started_ > Limit()) {
      problem_ = "it hangs";
      for (const Process& process : processes_) {
        for (const pid_t pid : Members(process.launcher)) PrintStacks(pid);
      }
    }
    if (problem_.empty()) return false;
    Kill();
    return true;
  }

  void Kill() {
    for (const Process& process : processes_) kill(-process.launcher, SIGKILL);
    killed_launcher_ = true;
  }

  std::string Output() const {
    std::string text;
    for (uint32_t side = 0; side < plan_.processes; ++side)
      text +=
          "--- side " + std::to_string(side) + ":\n" + ReadFile(folder_ / ("out." + std::to_string(side)));
    return text;
  }

  void Remove() const { fs::remove_all(folder_); }

 private:
  void Trouble(uint32_t side, uint32_t trouble) {
    board_->sides[side].troubles |= trouble;
    if (plan_.processes == 1) board_->sides[1].troubles |= trouble;
  }

  milliseconds Limit() const {
    milliseconds limit = limit_;
    for (const Disruption& disruption : plan_.disruptions) limit += disruption.pause;
    return limit;
  }

  bool AllStarted() const { return processes_.size() == plan_.processes; }

  /// Starts the sides that have not started, unless they need the port of a server that has not printed it.
  void StartPrograms() {
    while (!AllStarted()) {
      const auto side = static_cast<uint32_t>(processes_.size());
      const std::optional<std::vector<std::string>> program = ProgramOf(side);
      if (!program) return;
      std::vector<std::string> command = {SOFTHCA_PATH};
      command.insert(command.end(), plan_.softhca[side].begin(), plan_.softhca[side].end());
      command.emplace_back("--");
      command.insert(command.end(), program->begin(), program->end());
      processes_.push_back({.launcher = Start(command, side)});
      board_->counts.Add(Tally::kPrograms);
    }
  }

  /// Returns the command line of a side's program; empty: the port in it is not known yet.
  std::optional<std::vector<std::string>> ProgramOf(uint32_t side) const {
    if (plan_.program[side].empty()) {
      const std::string self = fs::read_symlink("/proc/self/exe").string();
      return std::vector<std::string>{self,
                                      "--worker",
                                      folder_.string(),
                                      "--side",
                                      std::to_string(side),
                                      "--seed",
                                      std::to_string(seed_),
                                      "--round",
                                      std::to_string(number_)};
    }
    std::vector<std::string> words = plan_.program[side];
    for (std::string& word : words) {
      if (word == "soak") word = SOAK_PATH;
      if (word == "warpverbs-perf") word = PERF_PATH;
      if (word == "#") word = PortOfServer();
      if (word.empty()) return {};
    }
    return words;
  }

  /// Returns the port that side 0 has printed; "" before that.
  std::string PortOfServer() const {
    constexpr std::string_view kBefore = "listening on port ";
    const std::string output = ReadFile(folder_ / "out.0");
    const size_t found = output.find(kBefore);
    if (found == std::string::npos) return "";
    const size_t start = found + kBefore.size(), end = output.find('\n', start);
    return end == std::string::npos ? "" : output.substr(start, end - start);
  }

  pid_t Start(const std::vector<std::string>& command, uint32_t side) const {
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const std::string output = (folder_ / ("out." + std::to_string(side))).string();
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
    if (child != 0) {
      setpgid(child, child);
      return child;
    }
    setpgid(0, 0);
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
    setenv("TMPDIR", folder_.parent_path().c_str(), 1);
    if (chdir(folder_.c_str()) != 0) _exit(126);
    if (const uint64_t bytes = plan_.limits[side].file_bytes; bytes != 0) {
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    execv(words[0], words.data());
    _exit(127);
  }

  void Disrupt() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      const Disruption disruption = pending_[i];
      const int program = board_->sides[disruption.side].pid;
      Process& process = processes_[disruption.side];
      if (program == 0 || process.launcher_status || process.program_status) continue;
      auto& since = since_[disruption.side];
      if (!since) since = steady_clock::now();
      if (steady_clock::now() - *since < disruption.after) continue;
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i--));
      switch (disruption.act) {
        case Disruption::Act::kKillProgram:
          Trouble(disruption.side, kKilled);
          board_->counts.Add(Tally::kKills);
          kill(program, SIGKILL);
          break;
        case Disruption::Act::kKillLauncher:
          Trouble(disruption.side, kLauncherKilled);
          board_->counts.Add(Tally::kKills);
          killed_launcher_ = true;
          kill(process.launcher, SIGKILL);
          break;
        case Disruption::Act::kStop:
          Trouble(disruption.side, kStopped);
          board_->counts.Add(Tally::kStops);
          kill(program, SIGSTOP);
          stopped_ = program;
          continues_ = steady_clock::now() + disruption.pause;
      }
    }
    if (stopped_ != 0 && steady_clock::now() > continues_) {
      kill(stopped_, SIGCONT);
      stopped_ = 0;
    }
  }

  /// Returns whether a launcher ended otherwise than what was done to it explains.
  bool Unexpected(const Process& process) const {
    const uint32_t troubles = board_->sides[static_cast<size_t>(&process - processes_.data())].troubles;
    const int status = *process.launcher_status;
    if (WIFSIGNALED(status)) return (troubles & kLauncherKilled) == 0 || WTERMSIG(status) != SIGKILL;
    if (WEXITSTATUS(status) == 0) return false;
    if (WEXITSTATUS(status) == 128 + SIGKILL && (troubles & kKilled) != 0) return false;
    return !Limited(process) && !EndedWithoutMemory(process);
  }

  /// Returns whether a limit kept the launcher from starting its program.
  bool Limited(const Process& process) const {
    const auto side = static_cast<size_t>(&process - processes_.data());
    return plan_.limits[side].file_bytes != 0 && board_->sides[side].pid == 0 &&
           WEXITSTATUS(*process.launcher_status) == 1;
  }

  /// Returns whether softhca has ended a program that may not have more memory.
  bool EndedWithoutMemory(const Process& process) const {
    const auto side = static_cast<size_t>(&process - processes_.data());
    const std::string output = ReadFile(folder_ / ("out." + std::to_string(side)));
    return plan_.limits[side].memory_bytes != 0 && WEXITSTATUS(*process.launcher_status) == 128 + SIGABRT &&
           output.find("softhca: the software NIC has no memory") != std::string::npos;
  }

  void Judge() {
    for (const Process& process : processes_) {
      if (process.launcher_status && Unexpected(process)) problem_ = "a program failed";
      if (killed_launcher_ && process.program_status && *process.program_status != 0)
        problem_ = "a program whose launcher was killed failed";
    }
    static const std::set<std::string> kOwn = {"board", "out", "log", "stats", "pcap", "trace"};
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (!kOwn.contains(entry.path().stem().string())) problem_ = "it leaves " + entry.path().string();
    }
  }

  uint64_t seed_, number_;
  seconds limit_;
  RoundPlan plan_;
  fs::path folder_;
  BoardFile board_;
  std::vector<Process> processes_{};  ///< one for each side that has started
  steady_clock::time_point started_;
  std::vector<Disruption> pending_;
  std::map<uint32_t, std::optional<steady_clock::time_point>> since_{};
  pid_t stopped_ = 0;
  steady_clock::time_point continues_{};
  bool killed_launcher_ = false;
  std::string problem_{};
};

/// All rounds of a run.
class Chaos {
 public:
  explicit Chaos(const Options& options) : options_(options) {
    std::string name = (ParentFolder(options.jobs) / "chaos.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw std::system_error(errno, std::generic_category(), "cannot create " + name);
    folder_ = name;
  }
  ~Chaos() {
    for (const auto& round : rounds_) round->Kill();
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  /// @return  an exit code
  int Run() {
    std::printf("chaos: seed %" PRIu64 ", %u s, %u rounds at a time\n", options_.seed, options_.seconds,
                options_.jobs);
    const auto end = steady_clock::now() + seconds(options_.seconds);
    uint64_t next = options_.round.value_or(0);
    uint64_t left = options_.round ? 1 : options_.rounds.value_or(~uint64_t{0});
    for (;;) {
      const bool more = interrupted == 0 && (failures_ == 0 || options_.keep_going) &&
                        steady_clock::now() < end && left != 0;
      if (!more && rounds_.empty()) break;
      if (interrupted != 0) return 1;
      for (; more && left != 0 && rounds_.size() < options_.jobs; --left) {
        while (!options_.kind.empty() && ToString(PlanOf(options_.seed, next).kind) != options_.kind) ++next;
        rounds_.push_back(std::make_unique<Round>(folder_, options_.seed, next++, seconds(options_.limit)));
        if (options_.verbose)
          std::printf("round %" PRIu64 ": %s\n", rounds_.back()->number(),
                      rounds_.back()->plan().Describe().c_str());
        std::fflush(stdout);
      }
      Reap();
      for (size_t i = 0; i < rounds_.size();) {
        if (!rounds_[i]->Advance()) {
          ++i;
          continue;
        }
        Finish(*rounds_[i]);
        rounds_.erase(rounds_.begin() + static_cast<ptrdiff_t>(i));
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    CheckLeftovers();
    Report();
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void Reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      for (const auto& round : rounds_) round->OnEnd(pid, status);
    }
  }

  void Finish(const Round& round) {
    ++kinds_[round.plan().kind];
    killed_launchers_ |= round.killed_launcher();
    for (size_t i = 0; i < tallies_.size(); ++i) tallies_[i] += round.counts().tallies[i];
    for (size_t i = 0; i < operations_.size(); ++i) operations_[i] += round.counts().operations[i];
    for (size_t i = 0; i < results_.size(); ++i) results_[i] += round.counts().results[i];
    if (!round.problem().empty()) {
      ++failures_;
      std::printf("FAILED: round %" PRIu64 " of seed %" PRIu64 ": %s\n  %s\n%s\n", round.number(),
                  options_.seed, round.problem().c_str(), round.plan().Describe().c_str(),
                  round.Output().c_str());
      std::printf("Repeat it by tests/soak/chaos --seed %" PRIu64 " --round %" PRIu64 "\n", options_.seed,
                  round.number());
      std::fflush(stdout);
    } else if (options_.verbose) {
      std::printf("round %" PRIu64 " has ended\n%s", round.number(), round.Output().c_str());
    }
    round.Remove();
  }

  /// Only a launcher that was killed may leave its folder, which the next start removes if it is old.
  void CheckLeftovers() {
    while (waitpid(-1, nullptr, 0) > 0) {  // those that were killed because they failed
    }
    if (killed_launchers_) {
      for (const auto& entry : fs::directory_iterator(folder_))
        fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - seconds(120));
      const std::string start = "TMPDIR=" + folder_.string() + " " SOFTHCA_PATH " -- true";
      if (std::system(start.c_str()) != 0) ++failures_;
    }
    for (const auto& entry : fs::directory_iterator(folder_)) {
      ++failures_;
      std::printf("FAILED: %s is left\n", entry.path().c_str());
    }
  }

  void Report() const {
    std::printf("rounds:");
    for (const auto& [kind, count] : kinds_) std::printf(" %s %" PRIu64 ",", ToString(kind), count);
    std::printf(" failed %" PRIu64 "\n", failures_);
    for (size_t i = 0; i < tallies_.size(); ++i)
      std::printf("  %-32s %12" PRIu64 "\n", ToString(static_cast<Tally>(i)), tallies_[i]);
    std::printf("operations:\n");
    for (size_t i = 0; i < operations_.size(); ++i)
      std::printf("  %-32s %12" PRIu64 "\n", ToString(static_cast<OperationKind>(i)), operations_[i]);
    std::printf("ends:\n");
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i] == 0) continue;
      const char* const name =
          i >= kTransportCodes
              ? warpverbs::transport::ToString(static_cast<warpverbs::transport::Code>(i - kTransportCodes))
          : i == 0 ? "success"
                   : warpverbs::mlx5::Describe(static_cast<warpverbs::mlx5::Syndrome>(i));
      const std::string text = name;
      std::printf("  %-32s %12" PRIu64 "\n",
                  ((i >= kTransportCodes ? "transport: " : "") + text.substr(0, text.find(':'))).c_str(),
                  results_[i]);
    }
  }

  const Options& options_;
  fs::path folder_;
  std::vector<std::unique_ptr<Round>> rounds_;
  std::map<RoundKind, uint64_t> kinds_;
  std::array<uint64_t, static_cast<size_t>(Tally::kCount)> tallies_{};
  std::array<uint64_t, static_cast<size_t>(OperationKind::kCount)> operations_{};
  std::array<uint64_t, kResults> results_{};
  uint64_t failures_ = 0;
  bool killed_launchers_ = false;
};

}  // namespace
}  // namespace soak

int main(int argc, char** argv) {
  soak::Options options;
  std::string worker;
  uint32_t side = 0;
  CLI::App app(
      "Disturbs programs under softhca: faults of frames, kills, stops, forks, limits. "
      "Checks every byte and every completion.");
  app.add_option("--seconds", options.seconds, "Time in which rounds begin (60)");
  app.add_option("--seed", options.seed, "Seed of all choices; by default another one in each run");
  app.add_option("--round", options.round, "Run this round only");
  app.add_option("--rounds", options.rounds, "End after this number of rounds, or after --seconds")
      ->excludes("--round");
  app.add_option("--kind", options.kind, "Run rounds of this kind only")
      ->check(CLI::IsMember({"endpoints", "lives", "transports", "programs", "verbs"}))
      ->excludes("--round");
  app.add_option("--jobs", options.jobs, "Rounds at a time (4)");
  app.add_option("--limit", options.limit, "Seconds after which a round hangs, besides its stops (150)");
  app.add_flag("--keep-going", options.keep_going, "Go on after a failure");
  app.add_flag("--verbose", options.verbose, "Print what each round does");
  app.add_option("--worker", worker)->group("");
  app.add_option("--side", side)->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!worker.empty()) return soak::RunWorker(worker, options.seed, options.round.value_or(0), side);
    if (app.count("--seed") == 0) options.seed = std::random_device()();
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // programs whose launchers are killed
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      std::signal(signal, [](int) { soak::interrupted = 1; });
    return soak::Chaos(options).Run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chaos: %s\n", error.what());
    return 1;
  }
}
