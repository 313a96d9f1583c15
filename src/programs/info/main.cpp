#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "common/command_line.hpp"
#include "common/thread.hpp"
#include "info/report.hpp"
#include "observation/observation_file.hpp"

namespace programs = warpverbs::programs;

namespace {

constexpr const char* kFooter = R"(
Tables:
  Devices and their capabilities; ports; GIDs with their scores, the one that an endpoint uses, and why; GPUs;
  distances between GPUs and devices. warpverbs-doctor finds what is wrong with a machine. Without a NIC:
  softhca -- warpverbs-info

Metrics:
  --metrics reads files that programs write by host::SaveObservations(), and prints what their posters have counted
  as Prometheus's text format: posts, doorbells, polls, and waits by cause. It touches no NIC.

Columns:
  WAIT                   whether a queue can wait for completions of another queue
  USER INDEX             whether queues can share a completion ring
  NIC'S WRITES IN ORDER  the observers that see a NIC's writes in their order; if there are none, a DUMP follows
                         each read

Exit status:
  0  success
  1  no ConnectX opens, or a file of --metrics cannot be read
  2  the command line is invalid)";

/// The settings of warpverbs-info.
struct Options {
  bool json = false;
  std::string device{};
  std::vector<std::string> metrics{};  ///< files of host::SaveObservations()
  programs::DeviceSelection selection{};
};

/// @return  empty if the program is to run
std::optional<programs::EarlyExit> Parse(int argc, char** argv, Options& options) {
  CLI::App app("Shows what warpverbs can use on this machine.", "warpverbs-info");
  app.footer(std::string(programs::kNcclHelp) + "\n" + kFooter);
  app.add_flag("--json", options.json, "Print JSON");
  app.add_option("--device", options.device, "Show only this NIC, for example mlx5_0")->type_name("NAME");
  app.add_option("--metrics", options.metrics,
                 "Print the counters of programs for Prometheus, and nothing else")
      ->type_name("FILE...")
      ->expected(1, -1);
  programs::DeviceOptions device;
  AddDeviceOptions(app, device);
  app.set_version_flag("--version", "warpverbs-info " WARPVERBS_PROGRAMS_VERSION);
  return programs::ParseCommandLine(app, argc, argv, [&] {
    device.nic = options.device;
    options.selection = programs::DeviceSelection(device, programs::ReadNcclEnvironment());
  });
}

/// Returns why no device can be used; "" if one can.
std::string Complaint(const programs::Survey& survey) {
  if (!survey.problem.empty()) return survey.problem + ". " + survey.remedy + ".";
  for (const programs::NicInfo& nic : survey.nics)
    if (nic.usable()) return "";
  if (!survey.nics.empty())
    return "No ConnectX of this machine opens. Run warpverbs-doctor to find the reason.";
  return "This machine has no ConnectX. Run warpverbs-doctor to find the reason.";
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  if (const auto exit = Parse(argc, argv, options)) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  if (!options.metrics.empty()) {
    std::vector<programs::ObservationFile> files;
    files.reserve(options.metrics.size());
    for (const std::string& file : options.metrics) files.push_back(programs::ReadObservations(file));
    std::fputs(MetricsText(files).c_str(), stdout);
    return 0;
  }
  constexpr std::chrono::seconds kTimeout{120};  // eight GPUs may take half of it
  const programs::Files files;
  auto survey = programs::RunWithin<programs::Survey>(
      kTimeout, [files, device = options.device] { return programs::SurveyHardware(files, device); });
  if (!survey) {
    std::fputs(
        "The NICs and GPUs have not answered within two minutes. Look for mlx5 and NVRM in the kernel log "
        "(dmesg).\n",
        stderr);
    std::_Exit(1);  // the survey still runs
  }
  Restrict(*survey, options.selection);
  const auto report = options.json ? programs::InfoJson : programs::InfoText;
  std::fputs(report(files, *survey, options.selection).c_str(), stdout);
  const std::string complaint = Complaint(*survey);
  if (complaint.empty()) return 0;
  std::fprintf(stderr, "%s\n", complaint.c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-info: %s\n", error.what());
  return 1;
}
