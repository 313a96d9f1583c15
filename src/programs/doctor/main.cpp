#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "doctor/check.hpp"
#include "doctor/meeting.hpp"
#include "doctor/options.hpp"
#include "doctor/report.hpp"
#include "machine/deadline.hpp"

namespace programs = warpverbs::programs;

namespace {

/// Looks at the machine; hardware that does not answer in time is a problem like others.
std::shared_ptr<programs::Machine> LookAround(const std::string& device, const programs::Fabric& fabric,
                                              bool& hung) {
  constexpr std::chrono::seconds kPatience{120};  // eight GPUs may take half of it
  auto machine = std::make_shared<programs::Machine>();
  machine->process = programs::LookAtProcess(machine->files);
  const auto survey = programs::RunWithin<programs::Survey>(
      kPatience, [files = machine->files, device] { return programs::LookAtHardware(files, device); });
  hung = !survey;
  machine->survey = survey.value_or(programs::Survey{
      .problem = "opening NICs and GPUs has not ended within two minutes",
      .remedy = "Look into the kernel log (dmesg) for mlx5 and NVRM; a driver or the firmware hangs"});
  Narrow(machine->survey, fabric);
  machine->fabric = fabric;
  machine->transfer = [fabric](const std::string& nic, uint8_t port) {
    return programs::TransferOnPort(nic, port, fabric);
  };
  return machine;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto command = programs::ParseDoctorOptions(argc, argv);
  if (const auto* const answer = std::get_if<programs::Answer>(&command)) {
    std::fputs(answer->text.c_str(), answer->exit_code == 0 ? stdout : stderr);
    return answer->exit_code;
  }
  const auto& options = std::get<programs::DoctorOptions>(command);
  bool hung = false;
  const auto machine = LookAround(options.device, options.fabric, hung);
  if (options.meeting) {
    machine->meet_peer = [fabric = options.fabric, meeting = *options.meeting] {
      return programs::Meet(fabric, meeting);
    };
  }
  const auto results = programs::RunChecks(options.checks, machine, hung);
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  std::fputs((options.json ? programs::ToJson(results) : programs::ToText(results, colour)).c_str(), stdout);
  const int exit_code = programs::ExitCode(results);
  std::fflush(stdout);
  if (hung) std::_Exit(exit_code);  // something still runs
  return exit_code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-doctor: %s\n", error.what());
  return 3;
}
