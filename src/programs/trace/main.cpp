#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "common/command_line.hpp"
#include "observation/perfetto.hpp"

namespace programs = warpverbs::programs;

namespace {

constexpr const char* kFooter = R"(
Makes a trace for https://ui.perfetto.dev of what posters have stored: programs whose SendQueues are Traced write the
files by host::SaveObservations(). Each queue has a track with its posts, waits and doorbells. With --softhca, the
events of softhca --trace stand beside them: the same processes, a track for each queue pair.

Threads of the processor and softhca have one clock. The clock of a GPU is another: with --softhca, the program
finds the difference by the doorbells and completions of each queue.

Exit status:
  0  success
  1  a file cannot be read or written
  2  the command line is invalid)";

struct Options {
  std::vector<std::string> files{};
  std::vector<std::string> softhca{};
  std::string output{};
  std::optional<int64_t> offset_ns{};
};

std::optional<programs::EarlyExit> Parse(int argc, char** argv, Options& options) {
  CLI::App app("Makes a trace for Perfetto of what posters and softhca have stored.", "warpverbs-trace");
  app.footer(kFooter);
  app.add_option("FILE", options.files, "Files of host::SaveObservations()")->required();
  app.add_option("--softhca", options.softhca, "File of softhca --trace; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--output", options.output, "Write to a file, not to standard output")->type_name("FILE");
  app.add_option("--gpu-offset", options.offset_ns,
                 "Nanoseconds to add to the times of GPUs, in place of the offset that the program finds")
      ->type_name("NS");
  app.set_version_flag("--version", "warpverbs-trace " WARPVERBS_PROGRAMS_VERSION);
  return programs::ParseCommandLine(app, argc, argv, [] {});
}

/// Returns what to add to the times of a queue's posters.
int64_t OffsetOf(const Options& options, const programs::ObservationFile& file,
                 const programs::ObservedQueue& queue, const nlohmann::json& softhca) {
  if (!queue.on_gpu) return 0;
  if (options.offset_ns) return *options.offset_ns;
  const auto offset = ClockOffset(file, queue, softhca);
  if (!offset && !queue.trace.empty()) {
    std::fprintf(
        stderr,
        "warpverbs-trace: the times of QP 0x%x on %s stay those of the GPU: no event of it is in a file of "
        "--softhca.\n",
        queue.qpn, queue.device.c_str());
  }
  return offset.value_or(0);
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  if (const auto exit = Parse(argc, argv, options)) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  nlohmann::json softhca = nlohmann::json::array();
  for (const std::string& file : options.softhca)
    for (nlohmann::json& event : programs::ReadSofthcaTrace(file)) softhca.push_back(std::move(event));
  nlohmann::json events = nlohmann::json::array();
  for (const std::string& name : options.files) {
    const programs::ObservationFile file = programs::ReadObservations(name);
    if (options.softhca.empty()) {
      events.push_back({{"ph", "M"},
                        {"pid", file.pid},
                        {"name", "process_name"},
                        {"ts", 0},
                        {"args", {{"name", file.program}}}});
    }
    for (const programs::ObservedQueue& queue : file.queues) {
      for (nlohmann::json& event : PosterEvents(file, queue, OffsetOf(options, file, queue, softhca)))
        events.push_back(std::move(event));
    }
  }
  for (nlohmann::json& event : softhca) events.push_back(std::move(event));
  std::ofstream file(options.output);
  std::ostream& stream = options.output.empty() ? std::cout : file;
  stream << events.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  if (!stream)
    throw std::runtime_error("Cannot write " + options.output + ". Name a file that you may write.");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-trace: %s\n", error.what());
  return 1;
}
