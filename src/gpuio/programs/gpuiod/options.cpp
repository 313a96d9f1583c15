#include "gpuio/programs/gpuiod/options.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr const char* kFooter = R"(
Applications use <hf3fs_usrbio.h>. They name files below PATH, which has to be the folder that the servers export, or a
mount of it. With --fuse this program mounts it there itself. PATH/3fs-virt is the control folder: this program makes it,
and serves it until it ends.

The first server that answers is used. When it does not answer any more, the next one is.

Applications with rings must belong to the user that runs this program.

Without a NIC: softhca --devx-events -- warpverbs-gpuiod PATH=HOST:PORT

Exit status:
  0  ended by SIGINT or SIGTERM
  1  the mount or the NIC is not available; the message says which
  2  the command line is invalid)";

bool ParseServer(std::string_view text, ServerAddress& server) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return false;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return false;
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), server.port);
  server.host = std::string(host);
  return error == std::errc() && end == port.data() + port.size() && server.port != 0;
}

/// Returns a path that is short enough for a socket, whatever the mount's is.
std::string DefaultSocket(const std::string& mount) {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder = runtime != nullptr && runtime[0] == '/' ? runtime : "/tmp";
  return folder + "/warpverbs-gpuiod-" + std::to_string(getuid()) + "-" +
         std::to_string(std::hash<std::string>()(mount)) + ".socket";
}

}  // namespace

bool ParseMount(std::string_view text, std::string& path, std::vector<ServerAddress>& servers) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  path = std::string(text.substr(0, equals));
  servers.clear();
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const size_t comma = rest.find(',');
    if (!ParseServer(rest.substr(0, comma), servers.emplace_back())) return false;
    if (comma == std::string_view::npos) return true;
    rest.remove_prefix(comma + 1);
  }
}

std::variant<GpuiodOptions, programs::EarlyExit> ParseGpuiodOptions(int argc, const char* const* argv) {
  GpuiodOptions options;
  std::string mount;
  uint32_t nics = options.files.transport.max_nics, timeout = 30, seconds = 0;
  CLI::App app(
      "Carries out the file I/O of this node's applications, straight into and out of their GPU memory.",
      "warpverbs-gpuiod");
  app.footer(kFooter);
  app.add_option("mount", mount, "Folder that applications name, and the servers of its files")
      ->required()
      ->type_name("PATH=HOST:PORT[,HOST:PORT...]")
      ->check(programs::Expect("PATH=HOST:PORT[,HOST:PORT...]", [&options](const std::string& text) {
        return ParseMount(text, options.daemon.mount, options.files.servers);
      }));
  bool fuse = false, allow_other = false;
  app.add_flag("--fuse", fuse, "Mount the files of the servers on PATH, an empty folder");
  app.add_flag("--allow-other", allow_other, "With --fuse: let all users use the mount; the files' permissions apply")
      ->needs("--fuse");
  app.add_option(
         "--socket", options.daemon.socket_path,
         "Path of the socket that applications find by the control folder (in XDG_RUNTIME_DIR or /tmp)")
      ->type_name("PATH");
  app.add_option("--device", options.files.device,
                 "GPU whose nearest NICs to use for memory of the host, or without GPUs the NIC's index (0)")
      ->type_name("INDEX")
      ->check(programs::Integer(0, 1023));
  app.add_option("--nics", nics, "Largest number of NICs to spread over (1)")
      ->type_name("1-8")
      ->check(programs::Integer(1, 8));
  app.add_option("--timeout", timeout, "Time until an I/O that no server answers fails (30)")
      ->type_name("SECONDS")
      ->check(programs::Integer(1, 3600));
  app.add_option_function<std::string>(
         "--log", [&options](const std::string& level) { options.log_level = *ParseLogLevel(level); },
         "What to log on stderr (warn)")
      ->type_name("off|error|warn|info|debug")
      ->check(programs::OneOf({"off", "error", "warn", "info", "debug"}));
  app.add_option("--stats", seconds, "Print a line of JSON with counters every so often, and at the end")
      ->type_name("SECONDS")
      ->check(programs::Integer(1, 86400));
  app.set_version_flag("--version", "warpverbs-gpuiod " WARPVERBS_PROGRAMS_VERSION);
  const auto exit = programs::ParseCommandLine(app, argc, argv, [&options] {
    std::error_code error;
    const auto path = std::filesystem::canonical(options.daemon.mount, error);
    if (error == std::errc::not_connected) {
      throw std::runtime_error(options.daemon.mount +
                               " is a mount whose daemon was killed. Run fusermount3 -uz " +
                               options.daemon.mount + " first");
    }
    if (error) throw std::runtime_error(options.daemon.mount + " is not there: " + error.message());
    options.daemon.mount = path.string();
  });
  if (exit) return *exit;
  if (options.daemon.socket_path.empty()) options.daemon.socket_path = DefaultSocket(options.daemon.mount);
  options.daemon.device = {.device = options.files.device, .max_nics = nics};
  options.files.transport.max_nics = nics;
  options.files.timeout = std::chrono::seconds(timeout);
  if (fuse) {
    options.mount = {.folder = options.daemon.mount,
                     .allow_other = allow_other,
                     .device = options.files.device,
                     .max_nics = nics};
  }
  if (seconds != 0) options.statistics = std::chrono::seconds(seconds);
  return options;
}

}  // namespace warpverbs::inline v0_2::gpuio
