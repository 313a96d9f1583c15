#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <regex>

#include "common/command_line.hpp"
#include "warpverbs/host/error.hpp"

namespace rdma_demo {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

std::string CheckSize(const std::string& text) {
  const bool is_number = std::regex_match(text, std::regex("[0-9]{1,10}"));
  const uint64_t bytes = is_number ? std::stoull(text) : 0;
  if (bytes >= sizeof(int32_t) && bytes <= kMaxBytes && bytes % sizeof(int32_t) == 0) return "";
  return "'" + text + "' is not a multiple of 4 from 4 to " + std::to_string(kMaxBytes);
}

std::string CheckMemory(const std::string& text) {
  static const std::regex known(
      "auto|host|(cuda|hip)(:[0-9]{1,3})?|gaudi(:[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7])?");
  return std::regex_match(text, known)
             ? ""
             : "'" + text + "' is none of auto, host, cuda[:N], hip[:N] and gaudi[:PCI address]";
}

/// The options that CLI11 parses into other types.
struct ParsedOptions {
  warpverbs::programs::DeviceOptions fabric;
  uint32_t wait_s = 0;
  uint32_t timeout_s = 10;
  bool refuses_reads = false;
};

void AddOptions(CLI::App& app, Role role, Options& options, ParsedOptions& parsed) {
  const bool serves = role == Role::kServer;
  if (!serves) app.add_option("server", options.server, "Host that rdma_server runs on");
  app.add_option(
         "-p,--port", options.port,
         serves ? "Listen on this TCP port; 0 takes a free one (20000)" : "The server's TCP port (20000)")
      ->type_name("PORT")
      ->check(CLI::Range(serves ? 0 : 1, 65535).description(""));
  app.add_option("-d,--nic", parsed.fabric.nic,
                 "Use this RDMA device (NCCL_IB_HCA, or the first with an active port)")
      ->type_name("NAME");
  app.add_option("-s,--size", options.bytes, "Bytes of each message, the same on both sides (4194304)")
      ->type_name("BYTES")
      ->check(CheckSize);
  app.add_option("-m,--memory", options.memory,
                 "Memory of the data: host, cuda[:N], hip[:N], gaudi[:PCI address], or auto: the first "
                 "accelerator that the NIC reaches, otherwise the host (auto)")
      ->type_name("KIND")
      ->check(CheckMemory);
  AddDeviceOptions(app, parsed.fabric);
  app.add_option("--rnr-retry", options.rnr_retry,
                 "Retries of a send that finds no receive; receives are always posted first (0)")
      ->type_name("0-7")
      ->check(CLI::Range(0, 7).description(""));
  if (serves)
    app.add_flag("--no-remote-read", parsed.refuses_reads, "Do not let the client read this memory");
  app.add_option("-w,--wait", parsed.wait_s,
                 serves ? "Seconds to wait for a client (60)" : "Seconds to wait for the server (10)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 86400).description(""));
  app.add_option("-t,--timeout", parsed.timeout_s, "Seconds that each step may take (10)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600).description(""));
  app.footer(warpverbs::programs::kNcclHelp);
}

}  // namespace

std::optional<int> ParseCommandLine(int argc, char** argv, Role role, Options& options) {
  const bool serves = role == Role::kServer;
  CLI::App app(serves ? "Teaches posting from the host: doubles the integers of rdma_client, lets it read, "
                        "and writes to it."
                      : "Teaches posting from the host: sends integers to rdma_server, reads its memory, "
                        "verifies all results.",
               serves ? "rdma_server" : "rdma_client");
  ParsedOptions parsed{.fabric = {}, .wait_s = serves ? 60U : 10U};
  AddOptions(app, role, options, parsed);
  try {
    app.parse(argc, argv);
    options.fabric = {parsed.fabric, warpverbs::programs::ReadNcclEnvironment()};
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see --help\n", argv[0], error.what());
    return 2;
  } catch (const warpverbs::host::Error& error) {  // a bad variable is as wrong as a bad option
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  if (!serves && options.server.empty()) {
    std::fprintf(stderr, "%s: name the host that the server runs on\n\n%s", argv[0], app.help().c_str());
    return 1;
  }
  options.serves_reads = !parsed.refuses_reads;
  options.wait = std::chrono::seconds(parsed.wait_s);
  options.timeout = std::chrono::seconds(parsed.timeout_s);
  return std::nullopt;
}

int RunProgram(int argc, char** argv, Role role, const std::function<bool(const Options&)>& run) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps steps and errors in order when both go to a file
  try {
    Options options;
    if (const std::optional<int> status = ParseCommandLine(argc, argv, role, options)) return *status;
    return run(options) ? 0 : 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "Cannot continue: this machine has no memory left. Choose a smaller --size.\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}

}  // namespace rdma_demo
