#include "warpverbs/host/rdma_cm.hpp"

#include "perf/party/party.hpp"

namespace warpverbs::perf {

class CmLine {
 public:
  explicit CmLine(host::CmConnection connection) : connection_(std::move(connection)) {}

 private:
  host::CmConnection connection_;
};

std::vector<std::shared_ptr<CmLine>> ConnectByRdmaCm(std::deque<host::Endpoint>& endpoints,
                                                     const Options& options, Talk& talk) {
  std::vector<std::shared_ptr<CmLine>> lines;
  std::optional<host::CmListener> listener;
  if (!options.is_client()) listener.emplace(host::TcpAddress{.host = "", .port = options.tcp_port});
  talk.Swap(Json::object(), "the word that it listens");
  for (host::Endpoint& endpoint : endpoints) {
    lines.push_back(std::make_shared<CmLine>(
        listener ? listener->Accept(endpoint, talk.Until())
                 : host::CmConnection::Connect(endpoint, {options.host, options.tcp_port}, talk.Until())));
  }
  return lines;
}

}  // namespace warpverbs::perf
