// The server is a process of its own, which tests kill.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdio>

#include "common/run_shell.hpp"
#include "gpuio/server/random_io.hpp"
#include "gpuio/server/served.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

namespace fs = std::filesystem;

/// A child process whose first lines of output the test reads.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
    if (error != 0) throw std::runtime_error("cannot start " + arguments[0]);
  }
  ~Child() {
    Kill(SIGKILL);
    std::fclose(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Reads lines up to one that starts with a text, and returns what follows that.
  std::string ReadUntil(const std::string& start) {
    std::array<char, 1000> line;
    while (std::fgets(line.data(), line.size(), output_) != nullptr) {
      const std::string text(line.data());
      if (text.starts_with(start)) return text.substr(start.size(), text.find('\n') - start.size());
    }
    throw std::runtime_error("no line that starts with " + start);
  }

  /// Returns the exit status.
  int Kill(int signal) {
    if (pid_ == 0) return -1;
    kill(pid_, signal);
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

/// A server in a process of its own.
class ServerProcess {
 public:
  explicit ServerProcess(const fs::path& folder, uint16_t port = 0,
                         const std::vector<std::string>& options = {})
      : folder_(folder), child_(Arguments(folder, port, options)) {
    port_ = static_cast<uint16_t>(std::stoi(child_.ReadUntil("listening on port ")));
  }
  uint16_t port() const { return port_; }
  int Kill(int signal) { return child_.Kill(signal); }
  pid_t pid() const { return child_.pid(); }
  /// Returns how many files of the folder it has open.
  size_t OpenFiles() const {
    size_t open = 0;
    for (const auto& file : fs::directory_iterator("/proc/" + std::to_string(child_.pid()) + "/fd")) {
      std::error_code closed;
      open += fs::read_symlink(file, closed).string().starts_with(folder_.string() + "/") ? 1 : 0;
    }
    return open;
  }

 private:
  static std::vector<std::string> Arguments(const fs::path& folder, uint16_t port,
                                            const std::vector<std::string>& options) {
    std::vector<std::string> arguments{WARPVERBS_FILED, folder,   "--listen",
                                       "127.0.0.1",     "--port", std::to_string(port)};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  }

  fs::path folder_;
  Child child_;
  uint16_t port_ = 0;
};

class ServerProcesses : public testing::Test {
 protected:
  Client& Connect(const std::vector<uint16_t>& ports) {
    for (const uint16_t port : ports) config_.servers.push_back({"127.0.0.1", port});
    return client_.emplace(config_);
  }

  TemporaryFolder folder_;
  FileClientConfig config_{};
  std::optional<Client> client_;
};

TEST_F(ServerProcesses, MoveFilesBothWays) {
  const ServerProcess server(folder_.path());
  Client& client = Connect({server.port()});
  const auto pattern = Pattern(5'000'001, 1);
  Memory memory(pattern.size()), back(pattern.size());
  memory.Set(pattern);
  const uint64_t file = client.MustOpen("file", O_RDWR | O_CREAT);
  EXPECT_EQ(client.Write(file, 0, memory.Remote()), 5'000'001);
  EXPECT_EQ(client.Read(file, 0, back.Remote()).result, 5'000'001);
  EXPECT_EQ(back.bytes(), pattern);
  EXPECT_EQ(ReadFile(folder_ / "file"), pattern);
}

TEST_F(ServerProcesses, ThatAreKilledAreReplacedByTheOther) {
  std::optional<ServerProcess> first(std::in_place, folder_.path());
  const ServerProcess second(folder_.path());
  const auto pattern = Pattern(3'000'000, 1);
  WriteFile(folder_ / "file", pattern);
  Client& client = Connect({first->port(), second.port()});
  const uint64_t file = client.MustOpen("file", O_RDONLY);
  std::atomic<bool> stop = false;
  std::atomic<size_t> reads = 0;
  std::string wrong;
  std::thread reader([&] {
    Memory memory(pattern.size());
    while (!stop && wrong.empty()) {
      std::fill(memory.bytes().begin(), memory.bytes().end(), uint8_t{0xee});
      const int64_t result = client.Read(file, 0, memory.Remote()).result;
      if (result != static_cast<int64_t>(pattern.size())) wrong = "a read returned " + std::to_string(result);
      if (memory.bytes() != pattern) wrong += "; its bytes are wrong";
      ++reads;
    }
  });
  EXPECT_TRUE(Eventually([&] { return reads >= 2; }));
  first->Kill(SIGKILL);
  const size_t before = reads;
  EXPECT_TRUE(Eventually([&] { return reads >= before + 3 || !wrong.empty(); }));
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(client.Server()->port, second.port());
}

class KilledServers : public ServerProcesses, public testing::WithParamInterface<const char*> {};

/// Kills the server at random moments: twice, or for WARPVERBS_SOAK_SECONDS.
TEST_P(KilledServers, LoseNoByteWhenTheyStartAgain) {
  const auto options = std::string(GetParam()) == "Buffered" ? std::vector<std::string>{"--buffered"}
                                                             : std::vector<std::string>{};
  std::optional<ServerProcess> server(std::in_place, folder_.path(), 0, options);
  Client& client = Connect({server->port()});
  const bool soaks = std::getenv("WARPVERBS_SOAK_SECONDS") != nullptr;
  const auto end = std::chrono::steady_clock::now() + SoakTime(std::chrono::seconds(0));
  std::mt19937_64 random(1);
  int kills = 0;
  do {
    std::vector<std::string> errors;
    std::jthread io([&] { errors = RandomIo(client, 4, std::chrono::milliseconds(600), true); });
    // Any moment is as good as another: the test passes whenever it comes.
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 600));
    server->Kill(SIGKILL);
    server.emplace(folder_.path(), config_.servers[0].port, options);
    io.join();
    ASSERT_THAT(errors, testing::ElementsAre()) << "after kill " << kills;
    ++kills;
  } while (soaks ? std::chrono::steady_clock::now() < end : kills < 2);
  RecordProperty("kills", kills);
}

INSTANTIATE_TEST_SUITE_P(Io, KilledServers, testing::Values("Auto", "Buffered"),
                         [](const auto& of) { return std::string(of.param); });

TEST_F(ServerProcesses, FreeAllThatAKilledClientHeld) {
  WriteFile(folder_ / "file", Pattern(100'000, 1));
  const ServerProcess server(folder_.path());
  Client& client = Connect({server.port()});
  client.MustOpen("file", O_RDONLY);
  const size_t before = server.OpenFiles();
  for (int i = 0; i < 3; ++i) {
    Child worker({WARPVERBS_FILE_WORKER, std::to_string(server.port())});
    worker.ReadUntil("running");
    EXPECT_GT(server.OpenFiles(), before);
    worker.Kill(SIGKILL);
    EXPECT_TRUE(Eventually([&] { return server.OpenFiles() <= before; })) << server.OpenFiles();
  }
  Memory memory(100'000);
  EXPECT_EQ(client.Read(client.MustOpen("file", O_RDONLY), 0, memory.Remote()).result, 100'000);
}

TEST_F(ServerProcesses, SurviveTheirLimitOfFileSizes) {
  const ServerProcess server(folder_.path());
  const rlimit limit{1 << 20, 1 << 20};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  Client& client = Connect({server.port()});
  const uint64_t file = client.MustOpen("file", O_RDWR | O_CREAT);
  Memory memory(1000);
  EXPECT_EQ(client.Write(file, 2 << 20, memory.Remote()), -EFBIG);
  EXPECT_EQ(client.ChangeAttributes(file, {.bytes = 2 << 20}), EFBIG);
  EXPECT_EQ(client.Write(file, 0, memory.Remote()), 1000);
}

TEST_F(ServerProcesses, EndWithStatusZeroWhenTold) {
  ServerProcess server(folder_.path(), 0, {"--stats", "1"});
  Client& client = Connect({server.port()});
  client.MustOpen("file", O_RDWR | O_CREAT);
  const int status = server.Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Filed, ExplainsItself) {
  const Result help = RunShell(WARPVERBS_FILED " --help");
  EXPECT_EQ(help.exit_status, 0);
  for (const char* const word :
       {"FOLDER", "--listen", "--port", "--read-only", "--memory", "--device", "--stats"})
    EXPECT_THAT(help.output, testing::HasSubstr(word));
  EXPECT_EQ(RunShell(WARPVERBS_FILED " --version").exit_status, 0);
}

TEST(Filed, RefusesWhatItCannotServe) {
  EXPECT_EQ(RunShell(WARPVERBS_FILED).exit_status, 2);
  EXPECT_EQ(RunShell(WARPVERBS_FILED " /tmp --memory 5").exit_status, 2);
  EXPECT_EQ(RunShell(WARPVERBS_FILED " /tmp --nonsense").exit_status, 2);
  const Result missing = RunShell(WARPVERBS_FILED " /no/such/folder");
  EXPECT_EQ(missing.exit_status, 1);
  EXPECT_THAT(missing.output, testing::HasSubstr("Cannot export /no/such/folder: No such file or directory"));
  const Result address = RunShell(WARPVERBS_FILED " /tmp --listen nowhere");
  EXPECT_EQ(address.exit_status, 1);
  EXPECT_THAT(address.output, testing::HasSubstr("Cannot listen on nowhere"));
}

TEST(Filed, SaysWhatItChose) {
  TemporaryFolder folder;
  Child server({WARPVERBS_FILED, folder.path(), "--port", "0", "--memory", "4M", "--buffered", "--io-engine",
                "threads"});
  EXPECT_EQ(server.ReadUntil("disk:    "), "threads; buffered I/O");
  EXPECT_EQ(server.ReadUntil("memory:  "), "16 buffers of 256 KiB");
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
