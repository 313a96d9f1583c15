#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "common/fabric_options.hpp"
#include "info/report.hpp"
#include "machine/deadline.hpp"
#include "text/refusal.hpp"

namespace programs = warpverbs::programs;

namespace {

constexpr const char* kFooter = R"(
Devices and what they can do; ports; GIDs, with their score, the one that an endpoint takes and why; GPUs;
and how far GPUs and devices are apart.
WAIT tells whether a queue can wait for another's completions, USER INDEX whether queues can share a ring of
completions. NIC'S WRITES IN ORDER tells whose kernels see what a NIC writes in the order in which it came;
where it is nobody, reads are followed by a DUMP.

Exit status: 0; 1 without a ConnectX that opens; 2 a wrong command line. What is wrong with a machine says
warpverbs-doctor. Without a NIC: softhca -- warpverbs-info)";

struct Options {
  bool json = false;
  std::string device{};
  programs::Fabric fabric{};
};

/// @return  the exit code, if the program is to end
std::optional<int> Parse(int argc, char** argv, Options& options) {
  CLI::App app("Shows what warpverbs can use on this machine.", "warpverbs-info");
  app.footer(std::string(programs::kNcclHelp) + "\n" + kFooter);
  app.add_flag("--json", options.json, "Print JSON");
  app.add_option("--device", options.device, "Look at this NIC alone, for example mlx5_0")->type_name("NAME");
  programs::FabricOptions fabric;
  AddFabricOptions(app, fabric);
  app.set_version_flag("--version", "warpverbs-info " WARPVERBS_PROGRAMS_VERSION);
  try {
    app.parse(argc, argv);
    fabric.nic = options.device;
    options.fabric = programs::Fabric(fabric, programs::ReadNcclEnvironment());
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::printf("%s\n", version.what());
    return 0;
  } catch (const std::exception& error) {
    std::fputs(programs::Refusal(app, error).c_str(), stderr);
    return 2;
  }
  return std::nullopt;
}

/// What to say where no device can be used; "": one can.
std::string Complaint(const programs::Survey& survey) {
  if (!survey.problem.empty()) return survey.problem + ". " + survey.remedy + ".";
  for (const programs::Nic& nic : survey.nics)
    if (nic.usable()) return "";
  if (!survey.nics.empty()) return "No ConnectX of this machine opens.";
  return "This machine has no ConnectX: warpverbs-doctor says what to look at.";
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  if (const auto exit_code = Parse(argc, argv, options)) return *exit_code;
  constexpr std::chrono::seconds kPatience{120};  // eight GPUs may take half of it
  const programs::Files files;
  auto survey = programs::RunWithin<programs::Survey>(
      kPatience, [files, device = options.device] { return programs::LookAtHardware(files, device); });
  if (!survey) {
    std::fputs("The NICs and GPUs have not answered within two minutes: see the kernel log (dmesg).\n",
               stderr);
    std::_Exit(1);  // something still runs
  }
  Narrow(*survey, options.fabric);
  const auto report = options.json ? programs::InfoJson : programs::InfoText;
  std::fputs(report(files, *survey, options.fabric).c_str(), stdout);
  const std::string complaint = Complaint(*survey);
  if (complaint.empty()) return 0;
  std::fprintf(stderr, "%s\n", complaint.c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-info: %s\n", error.what());
  return 1;
}
