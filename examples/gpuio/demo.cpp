// Moves a file between a disk and GPU memory through the ring, and says which path each byte took.
//
// The program starts a file server and the daemon of the node, writes a file out of one buffer, reads it into
// another one, and compares that. Buffers are in GPU memory: the file server moves their bytes by RDMA.
//
//   softhca --devx-events -- gpuio-demo            buffers in host memory, software NIC: needs no hardware
//   gpuio-demo --device cuda:0 /mnt/nvme           buffers on a GPU, a file on a disk
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "common/command_line.hpp"
#include "local_servers.hpp"
#include "pattern.hpp"
#include "ring_io.hpp"

namespace {

constexpr size_t kRequestBytes = size_t{1} << 20;
constexpr uint64_t kSeed = 1;

struct Options {
  std::string folder;  ///< empty: a temporary one
  std::string device = "cpu";
  uint64_t bytes = uint64_t{64} << 20;
  bool buffered = false;
};

/// A new file, removed with this.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path), file_(path, O_RDWR | O_CREAT | O_EXCL) {}
  ~NewFile() { unlink(path_.c_str()); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const RegisteredFile& registered() const { return file_; }

 private:
  std::filesystem::path path_;
  RegisteredFile file_;
};

/// What is created on the mount, and goes before the daemon ends.
struct OnMount {
  OnMount(const std::filesystem::path& mount, const Options& options)
      : first(mount, options.bytes, GpuOf(options.device)),
        second(mount, options.bytes, GpuOf(options.device)),
        writes(mount, false, 64),
        reads(mount, true, 64),
        file(mount / "gpuio-demo.bin") {}

  Iov first, second;
  Ring writes, reads;
  NewFile file;
};

/// Moves the file from the first buffer to the second one. Returns a description of the memory.
std::string WriteAndRead(const std::filesystem::path& mount, const Options& options) {
  OnMount made(mount, options);
  const std::string name = made.first.name();
  std::printf("2. Created two buffers in %s, and rings for writes and reads\n", name.c_str());

  const PatternMemory first(made.first.get()), second(made.second.get());
  first.Fill(options.bytes, kSeed);
  second.Fill(options.bytes, kSeed + 1);  // only the file can make it right
  std::printf("3. Filled the buffers by %s\n", first.worker().c_str());

  made.first.SyncBeforeIo();
  made.writes.Transfer(made.first, made.file.registered(), {.bytes = options.bytes}, kRequestBytes);
  std::printf("4. Wrote %s out of the first buffer: %ju bytes on the disk\n", made.file.path().c_str(),
              static_cast<uintmax_t>(std::filesystem::file_size(made.file.path())));

  made.reads.Transfer(made.second, made.file.registered(), {.bytes = options.bytes}, kRequestBytes);
  made.second.SyncAfterIo();
  const size_t wrong = second.CountWrong(options.bytes, kSeed);
  if (wrong != 0) throw std::runtime_error(std::to_string(wrong) + " bytes of the second buffer are wrong.");
  std::printf("5. Read it into the second buffer, and compared that, by the same\n");
  return name;
}

void Demonstrate(const Options& options) {
  std::optional<TemporaryFolder> temporary;
  if (options.folder.empty()) temporary.emplace();
  const auto mount = std::filesystem::canonical(temporary ? temporary->path().string() : options.folder);

  LocalServers servers(
      mount, options.buffered ? std::vector<std::string>{"--buffered"} : std::vector<std::string>{});
  std::printf("1. Started warpverbs-filed on port %s, and warpverbs-gpuiod, over %s\n   disk: %s\n",
              servers.port().c_str(), mount.c_str(), servers.disk().c_str());
  const std::string memory = WriteAndRead(mount, options);

  const Counters counters = servers.Stop();
  const char* const engine = servers.disk().starts_with("io_uring") ? "io_uring" : "a thread";
  std::printf("6. Ended both. The path of each byte, as they have counted:\n");
  std::printf("   %10ju bytes: %s -- RDMA READ by the server --> %s --> file\n",
              static_cast<uintmax_t>(counters.fetched_from_memory), memory.c_str(), engine);
  std::printf("   %10ju bytes: file --> %s -- RDMA WRITE by the server --> %s\n",
              static_cast<uintmax_t>(counters.written_to_memory), engine, memory.c_str());
  if (counters.zeroed != 0) {
    std::printf("   %10ju bytes: holes of the file, zeroed in %s by the daemon\n",
                static_cast<uintmax_t>(counters.zeroed), memory.c_str());
  }
  const bool is_all = counters.fetched_from_memory == options.bytes &&
                      counters.written_to_memory + counters.zeroed == options.bytes && counters.failures == 0;
  if (!is_all) throw std::runtime_error("Not all bytes took this path.");
  std::printf("   No byte passed through this program or the daemon.\n");
}

}  // namespace

int main(int argc, char** argv) try {
  namespace programs = warpverbs::programs;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps steps and errors in order when both go to a file
  Options options;
  CLI::App app(
      "Writes a file out of GPU memory and reads it into other GPU memory, by a server, a daemon and the "
      "ring.",
      "gpuio-demo");
  app.footer(
      "\nWithout a NIC: softhca --devx-events -- gpuio-demo\n\nExit status:\n  0  all bytes are right\n"
      "  1  something failed; the message says what\n  2  the command line is invalid");
  app.add_option("folder", options.folder, "Folder for the file (a temporary one)")
      ->type_name("FOLDER")
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", options.device, "Where the buffers are: cpu, or cuda:N (cpu)")
      ->type_name("DEVICE")
      ->check(CheckDevice);
  app.add_option("--bytes", options.bytes, "Size of the file (64M)")
      ->type_name("BYTES")
      ->transform(programs::Bytes(1, 3U << 30));
  app.add_flag("--buffered", options.buffered,
               "Let the server go through the page cache, also where the file system has direct I/O");
  if (const auto exit = programs::ParseCommandLine(app, argc, argv, [] {})) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  CatchSignals();
  Demonstrate(options);
  std::printf("Success! All %ju bytes are right, there and back.\n", static_cast<uintmax_t>(options.bytes));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpuio-demo: %s\n", error.what());
  return 1;
}
