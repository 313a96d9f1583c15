#include "pair.hpp"

#include <cstdlib>
#include <sstream>

namespace {

/// Returns the rest of the line after `key` in the script's summary.
std::string After(const std::string& output, const std::string& key, size_t from) {
  const size_t at = output.find(key, from);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size();
  return output.substr(begin, output.find('\n', begin) - begin);
}

int StatusOf(const std::string& text) { return text.empty() ? -1 : std::atoi(text.c_str()); }

}  // namespace

PerfPair RunPerfPair(const std::string& server, const std::string& client, const std::string& server_softhca,
                     const std::string& client_softhca, const std::string& environment, Output client_at) {
  const auto command = [&environment](const std::string& softhca, const std::string& options) {
    return "env " + environment + " timeout -s KILL 100 " SOFTHCA " " + softhca + " -- " PERF " " + options;
  };
  std::string visit = command(client_softhca, client) + " -p ${port:-1} 127.0.0.1";
  if (client_at == Output::kTerminal) visit = "script -qec \"" + visit + "\" /dev/null </dev/null";
  const std::string script = "folder=$(mktemp -d); trap 'rm -r $folder' EXIT; : >$folder/server\n" +
                             command(server_softhca, server) + " -p 0 >$folder/server 2>&1 & server=$!\n" +
                             "for _ in $(seq 600); do\n"
                             "  port=$(sed -n 's/.*listening on port //p' $folder/server)\n"
                             "  [ -z \"$port\" ] || break; kill -0 $server 2>/dev/null || break; sleep 0.05\n"
                             "done; begin=$(date +%s.%N)\n" +
                             visit + " >$folder/client 2>&1; client=$?; end=$(date +%s.%N)\n" +
                             "wait $server; server=$?\n"
                             "echo '== server'; cat $folder/server; echo '== client'; cat $folder/client\n"
                             "echo \"== statuses\"; echo \"server: $server\"; echo \"client: $client\"\n"
                             "echo \"began: $begin\"; echo \"ended: $end\"";
  const std::string output = RunShell(script).output;
  const size_t of_server = output.find("== server\n"), of_client = output.find("== client\n"),
               of_statuses = output.rfind("== statuses\n");
  if (of_server == std::string::npos || of_client == std::string::npos || of_statuses == std::string::npos)
    return {output, output};
  constexpr size_t kHead = sizeof "== server\n" - 1;
  return {.server = output.substr(of_server + kHead, of_client - of_server - kHead),
          .client = output.substr(of_client + kHead, of_statuses - of_client - kHead),
          .server_status = StatusOf(After(output, "server: ", of_statuses)),
          .client_status = StatusOf(After(output, "client: ", of_statuses)),
          .client_seconds = std::atof(After(output, "ended: ", of_statuses).c_str()) -
                            std::atof(After(output, "began: ", of_statuses).c_str())};
}

std::string TableOf(const std::string& output) {
  const size_t at = output.find(" #bytes");
  return at == std::string::npos ? "" : output.substr(at);
}
