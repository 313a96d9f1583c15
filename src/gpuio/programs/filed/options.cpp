#include "gpuio/programs/filed/options.hpp"

#include <string>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr const char* kFooter = R"(
Clients are warpverbs-gpuiod and programs with a mount. They name files by paths below FOLDER, and reach nothing
outside: no "..", and no symlink that leaves it. Their memory is read and written by RDMA. Files that they create
belong to the user that runs the server.

A connection is neither encrypted nor authenticated. Listen only where all hosts trust each other.

To outgrow one machine, put FOLDER on a distributed file system, run a server on each of its nodes, and name all
of them to the clients: a client takes the next server when its own does not answer.

Without a NIC: softhca --devx-events -- warpverbs-filed FOLDER

Exit status:
  0  ended by SIGINT or SIGTERM
  1  the folder, the address, the NIC or the memory is not available; the message says which
  2  the command line is invalid)";

}  // namespace

std::variant<FiledOptions, programs::EarlyExit> ParseFiledOptions(int argc, char** argv) {
  FiledOptions options;
  FileServerConfig& server = options.server;
  server.port = 18600;
  uint32_t memory = 64 << 20, nics = server.transport.max_nics, clients = 256, seconds = 0;
  bool buffered = false;
  CLI::App app("Serves the files of a folder by RDMA, straight into and out of the memory of its clients.",
               "warpverbs-filed");
  app.footer(kFooter);
  app.add_option("folder", server.folder, "Folder to serve")->required()->type_name("FOLDER");
  app.add_option("--listen", server.address, "Address of the interface to listen on (0.0.0.0)")
      ->type_name("ADDRESS");
  app.add_option("--port", server.port, "TCP port to listen on (18600; 0: any free port)")
      ->type_name("PORT")
      ->check(programs::Integer(0, 65535));
  app.add_flag("--read-only", server.read_only, "Refuse all that changes the folder");
  app.add_option("--memory", memory, "Memory for data on its way, for all clients together (64M)")
      ->type_name("BYTES")
      ->transform(programs::Bytes(1 << 20, 3U << 30));
  app.add_option("--device", server.device,
                 "GPU whose nearest NICs to use, or without GPUs the NIC's index (0)")
      ->type_name("INDEX")
      ->check(programs::Integer(0, 1023));
  app.add_option("--nics", nics, "Largest number of NICs to spread over (1)")
      ->type_name("1-8")
      ->check(programs::Integer(1, 8));
  app.add_option("--clients", clients, "Largest number of clients at a time (256)")
      ->type_name("COUNT")
      ->check(programs::Integer(1, 65535));
  app.add_option_function<std::string>(
         "--io-engine",
         [&server](const std::string& engine) {
           server.engine = engine == "uring"     ? IoEngine::kUring
                           : engine == "threads" ? IoEngine::kThreads
                                                 : IoEngine::kAuto;
         },
         "I/O engine: auto takes io_uring where the kernel allows it (auto)")
      ->type_name("auto|uring|threads")
      ->check(programs::OneOf({"auto", "uring", "threads"}));
  app.add_flag(
      "--buffered", buffered,
      "Go through the page cache, also where the file system has direct I/O: for files that are read often");
  app.add_option("--stats", seconds, "Print a line of statistics at this interval, and at the end")
      ->type_name("SECONDS")
      ->check(programs::Integer(1, 86400));
  app.set_version_flag("--version", "warpverbs-filed " WARPVERBS_PROGRAMS_VERSION);
  const auto exit = programs::ParseCommandLine(app, argc, argv, [] {});
  if (exit) return *exit;
  server.memory = memory;
  server.transport.max_nics = nics;
  server.max_clients = clients;
  if (buffered) server.mode = IoMode::kBuffered;
  if (seconds != 0) options.statistics = std::chrono::seconds(seconds);
  return options;
}

}  // namespace warpverbs::inline v0_2::gpuio
