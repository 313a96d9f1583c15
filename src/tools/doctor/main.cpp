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

namespace tools = warpverbs::tools;

namespace {

/// Looks at the machine; hardware that does not answer in time is a problem like others.
std::shared_ptr<tools::Machine> LookAround(const std::string& device, const tools::Fabric& fabric,
                                           bool& hung) {
  constexpr std::chrono::seconds kPatience{120};  // eight GPUs may take half of it
  auto machine = std::make_shared<tools::Machine>();
  machine->process = tools::LookAtProcess(machine->files);
  const auto survey = tools::RunWithin<tools::Survey>(
      kPatience, [files = machine->files, device] { return tools::LookAtHardware(files, device); });
  hung = !survey;
  machine->survey = survey.value_or(tools::Survey{
      .problem = "opening NICs and GPUs has not ended within two minutes",
      .remedy = "Look into the kernel log (dmesg) for mlx5 and NVRM; a driver or the firmware hangs"});
  Narrow(machine->survey, fabric);
  machine->fabric = fabric;
  machine->transfer = [fabric](const std::string& nic, uint8_t port) {
    return tools::TransferOnPort(nic, port, fabric);
  };
  return machine;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto command = tools::ParseDoctorOptions(argc, argv);
  if (const auto* const answer = std::get_if<tools::Answer>(&command)) {
    std::fputs(answer->text.c_str(), answer->exit_code == 0 ? stdout : stderr);
    return answer->exit_code;
  }
  const auto& options = std::get<tools::DoctorOptions>(command);
  bool hung = false;
  const auto machine = LookAround(options.device, options.fabric, hung);
  if (options.meeting) {
    machine->meet_peer = [fabric = options.fabric, meeting = *options.meeting] {
      return tools::Meet(fabric, meeting);
    };
  }
  const auto results = tools::RunChecks(options.checks, machine, hung);
  const bool colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  std::fputs((options.json ? tools::ToJson(results) : tools::ToText(results, colour)).c_str(), stdout);
  const int exit_code = tools::ExitCode(results);
  std::fflush(stdout);
  if (hung) std::_Exit(exit_code);  // something still runs
  return exit_code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-doctor: %s\n", error.what());
  return 3;
}
