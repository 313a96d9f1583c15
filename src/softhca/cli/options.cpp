#include "cli/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/build_info.hpp"
#include "faults/fault_plan.hpp"
#include "observe/log.hpp"

namespace softhca {
namespace {

template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

const Choices<mlx5::PortType> kLinks = {{"ethernet", mlx5::PortType::kEthernet},
                                        {"infiniband", mlx5::PortType::kInfiniBand}};
const Choices<mlx5::Mtu> kMtus = {{"256", mlx5::Mtu::k256},
                                  {"512", mlx5::Mtu::k512},
                                  {"1024", mlx5::Mtu::k1024},
                                  {"2048", mlx5::Mtu::k2048},
                                  {"4096", mlx5::Mtu::k4096}};

const Choices<bool> kWires = {{"udp", false}, {"raw", true}};

/// Adds an option that takes a key of `table`, in upper or lower case.
template <class T>
CLI::Option* AddChoice(CLI::App& app, const std::string& option, const Choices<T>& table, T& value) {
  const auto take = [&value, &table, option](const std::string& text) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const auto& choice) {
      return choice.first == CLI::detail::to_lower(text);
    });
    if (found == table.end()) {
      std::string names;
      for (const auto& [name, unused] : table) names += (names.empty() ? "" : ", ") + name;
      throw CLI::ValidationError(option, "'" + text + "' is invalid; choose one of " + names);
    }
    value = found->second;
  };
  return app.add_option_function<std::string>(option, take);
}

/// Prints the usage line, which CLI11 cannot derive: a program follows the options.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: softhca [options] -- PROGRAM ARGS\n";
  }
};

/// Adds --max-message, which takes sizes such as 4096, 4k and 1m.
void AddMaxMessage(CLI::App& app, Settings& settings) {
  const auto take = [&settings](const uint64_t& bytes) {
    if (!std::has_single_bit(bytes) || bytes < 4096 || bytes > 1u << 30) {
      throw CLI::ValidationError("--max-message",
                                 std::to_string(bytes) + " is not a power of two from 4k to 1g");
    }
    settings.log_max_message = static_cast<uint32_t>(std::countr_zero(bytes));
  };
  app.add_option_function<uint64_t>("--max-message", take,
                                    "Longest message: a power of two from 4k to 1g (default 1g)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("BYTES");
}

/// Adds the options that connect the ports.
void AddNetworkOptions(CLI::App& app, Settings& settings) {
  app.add_option("--interface", settings.interfaces,
                 "Network interface of a port, for peers on other hosts or in other network namespaces;\n"
                 "once for each port (default: loopback addresses)")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddChoice(app, "--wire", kWires, settings.raw_sockets)
      ->description(
          "udp: UDP sockets (default); raw: raw sockets, for peers such as Linux's rdma_rxe whose\n"
          "IP packets have identification numbers; needs CAP_NET_RAW")
      ->type_name("KIND");
  const auto take_cable = [&settings](const std::string& text) {
    const size_t comma = text.find(',');
    if (comma == 0 || comma == std::string::npos || comma + 1 == text.size()) {
      throw CLI::ValidationError("--cable", "'" + text + "' is not two paths separated by a comma");
    }
    settings.cable_local = text.substr(0, comma);
    settings.cable_remote = text.substr(comma + 1);
  };
  app.add_option_function<std::string>("--cable", take_cable,
                                       "Unix sockets of an Ethernet cable, as of QEMU's -netdev dgram")
      ->type_name("LOCAL,REMOTE");
  app.add_option("--address", settings.addresses, "IP address of the port at the cable; may be repeated")
      ->type_name("IP[/PREFIX]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag_callback(
      "--no-direct", [&settings] { settings.direct = false; },
      "Send packets between queue pairs of one process, too");
}

constexpr const char* kFooter =
    R"(%p in the FILE of --log, --pcap, --stats and --trace stands for the process number.

Rules of --fault, KIND[:VALUE][,WORD[=VALUE]]..., for example:
  drop:5%                             lose frames; likewise duplicate, reorder, corrupt, flip, delay:5%,by=200us
  drop,op=WRITE_MIDDLE,qp=0x12,nth=2  lose one frame: its opcode, its destination queue pair, its number
  slow,every=50us                     receive one frame every 50 us
  link-down,after=500ms,for=2s        take all links down; port=mlx5_0/1 for one link
  syndrome:0x13,index=3,qp=0x101      fail a send WQE
  kill,after=1s                       kill the process
  seed:7                              seed of the random numbers

Exit status:
  1    the devices cannot be set up
  2    the command line is invalid
  126  PROGRAM cannot be executed
  127  PROGRAM does not exist

Otherwise that of PROGRAM, or 128 + the signal that ended it.)";

/// Adds the options for faults and observers.
void AddObserverOptions(CLI::App& app, Settings& settings) {
  app.add_option("--fault", settings.faults, "Fault to inject, such as drop:5%; may be repeated")
      ->type_name("RULE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  const auto take_stats = [&settings](const std::string& file) {
    settings.stats = true;
    settings.stats_file = file;
  };
  app.add_option_function<std::string>("--stats", take_stats,
                                       "Print counts at the program's exit, or write them as JSON")
      ->type_name("[=FILE]")
      ->expected(0, 1);
  app.add_option("--log", settings.log,
                 "Log at level warning, info, debug or trace, to standard error or a file")
      ->type_name("LEVEL[,FILE]");
  app.add_option("--pcap", settings.pcap, "Capture all frames, for tshark and Wireshark")->type_name("FILE");
  app.add_option("--trace", settings.trace, "Trace each work request, for ui.perfetto.dev")
      ->type_name("FILE");
}

void AddOptions(CLI::App& app, Settings& settings) {
  app.add_option("--devices", settings.devices, "Number of devices: mlx5_0, mlx5_1 and so on (default 1)")
      ->check(CLI::Range(1, 16).description(""))
      ->type_name("N");
  app.add_option("--ports", settings.ports, "Number of ports of each device (default 1)")
      ->check(CLI::Range(1, 2).description(""))
      ->type_name("N");
  AddChoice(app, "--link", kLinks, settings.link)
      ->description("ethernet (RoCE; default), or infiniband, among this user's programs on this host")
      ->type_name("LAYER");
  AddChoice(app, "--mtu", kMtus, settings.mtu)
      ->description("MTU of the ports: 256, 512, 1024, 2048 or 4096 bytes of payload (default 4096)")
      ->type_name("BYTES");
  app.add_option("--port-down", settings.ports_down,
                 "Take ports down: DEVICE/PORT, DEVICE or all; may be repeated")
      ->type_name("WHAT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag_callback(
      "--no-gids", [&settings] { settings.gids = false; }, "Leave the GID tables empty");
  app.add_flag_callback(
      "--no-atomics", [&settings] { settings.atomics = false; }, "Disable atomic operations");
  app.add_flag_callback(
      "--big-endian-atomics", [&settings] { settings.host_order_atomics = false; },
      "Report 8-byte atomics in big-endian order");
  app.add_flag_callback(
      "--no-user-index", [&settings] { settings.user_index = false; },
      "Report completions without user index");
  app.add_flag_callback(
      "--no-wait", [&settings] { settings.wait = false; }, "Report no support for WAIT");
  app.add_flag_callback(
      "--devx-events", [&settings] { settings.devx_events = true; }, "Enable DEVX event channels");
  AddMaxMessage(app, settings);
  app.add_option("--first-key", settings.first_key,
                 "Start of the lkeys and rkeys of each process, for repeatable runs (default: random)")
      ->check(CLI::Range(int64_t{0}, int64_t{UINT32_MAX}).description(""))
      ->type_name("N")
      ->default_str("");
  AddNetworkOptions(app, settings);
  AddObserverOptions(app, settings);
  app.set_version_flag("--version", std::string("softhca ") + build_info::kVersion);
}

Message Refuse(const std::string& why) { return {"softhca: " + why + "; see softhca --help\n", 2}; }

}  // namespace

std::variant<Options, Message> ParseCommandLine(int argc, char** argv) {
  Options options;
  const auto end = argv + argc;
  const auto dashes = std::find(argv, end, std::string_view("--"));
  if (dashes != end) options.program.assign(dashes + 1, end);

  CLI::App app("Runs a program on software ConnectX-7 devices, under the machine's own rdma-core.");
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(kFooter);
  AddOptions(app, options.settings);
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
    // Checks that only these functions make.
    CheckPorts(ParseFaults(options.settings.faults), MakeDevices(options.settings));
    if (!options.settings.log.empty()) ParseLog(options.settings.log);
  } catch (const CLI::CallForHelp&) {
    return Message{app.help(), 0};
  } catch (const CLI::CallForVersion& version) {
    return Message{std::string(version.what()) + '\n', 0};
  } catch (const CLI::ExtrasError&) {
    const std::string first = app.remaining().front();
    if (first.front() == '-') return Refuse("option " + first + " does not exist");
    return Refuse("put -- before the program: softhca -- " + first);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string option = error.what();
    return Refuse(option.substr(0, option.find(':')) + " needs a value");
  } catch (const std::exception& error) {
    return Refuse(error.what());
  }
  if (options.program.empty()) return Refuse("name a program to run: softhca [options] -- PROGRAM ARGS");
  return options;
}

}  // namespace softhca
