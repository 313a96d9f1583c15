#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "common/thread.hpp"
#include "doctor/check.hpp"
#include "doctor/options.hpp"
#include "doctor/peer_test.hpp"
#include "doctor/report.hpp"

namespace programs = warpverbs::programs;

namespace {

/// Inspects the machine. Hardware that does not answer in time becomes a finding like others.
std::shared_ptr<programs::Machine> InspectMachine(const std::string& device,
                                                  const programs::DeviceSelection& selection, bool& hung) {
  constexpr std::chrono::seconds kTimeout{120};  // eight GPUs may take half of it
  auto machine = std::make_shared<programs::Machine>();
  machine->process = programs::InspectProcess(machine->files);
  const auto survey = programs::RunWithin<programs::Survey>(
      kTimeout, [files = machine->files, device] { return programs::SurveyHardware(files, device); });
  hung = !survey;
  machine->survey = survey.value_or(programs::Survey{
      .problem = "opening the NICs and GPUs took more than two minutes",
      .remedy = "Look for mlx5 and NVRM in the kernel log (dmesg): a driver or the firmware hangs"});
  Restrict(machine->survey, selection);
  machine->selection = selection;
  machine->transfer = [selection](const std::string& nic, uint8_t port) {
    return programs::TransferOnPort(nic, port, selection);
  };
  return machine;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto parsed = programs::ParseDoctorOptions(argc, argv);
  if (const auto* const exit = std::get_if<programs::EarlyExit>(&parsed)) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  const auto& options = std::get<programs::DoctorOptions>(parsed);
  bool hung = false;
  const auto machine = InspectMachine(options.device, options.selection, hung);
  if (options.peer) {
    machine->test_with_peer = [selection = options.selection, peer = *options.peer] {
      return programs::TestWithPeer(selection, peer);
    };
  }
  const auto results = programs::RunChecks(options.checks, machine, hung);
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  std::fputs((options.json ? programs::ToJson(results) : programs::ToText(results, colour)).c_str(), stdout);
  const int exit_code = programs::ExitCode(results);
  std::fflush(stdout);
  if (hung) std::_Exit(exit_code);  // a check still runs
  return exit_code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-doctor: %s\n", error.what());
  return 3;
}
