#include "perf/side/side.hpp"
#include "warpverbs/host/error.hpp"
#if WARPVERBS_PERF_RDMA_CM
#include "warpverbs/host/rdma_cm.hpp"
#endif

namespace warpverbs::perf {

#if WARPVERBS_PERF_RDMA_CM
std::vector<std::shared_ptr<void>> ConnectByRdmaCm(std::deque<host::Endpoint>& endpoints,
                                                   const Options& options, ControlChannel& control) {
  std::vector<std::shared_ptr<void>> connections;
  connections.reserve(endpoints.size());
  std::optional<host::CmListener> listener;
  if (!options.is_client()) listener.emplace(host::TcpAddress{.host = "", .port = options.tcp_port});
  control.Swap(Json::object(), "its notice that it listens");
  for (host::Endpoint& endpoint : endpoints) {
    connections.push_back(std::make_shared<host::CmConnection>(
        listener
            ? listener->Accept(endpoint, control.Deadline())
            : host::CmConnection::Connect(endpoint, {options.host, options.tcp_port}, control.Deadline())));
  }
  return connections;
}
#else
std::vector<std::shared_ptr<void>> ConnectByRdmaCm(std::deque<host::Endpoint>&, const Options&,
                                                   ControlChannel&) {
  throw host::Error("connect", "by rdma_cm", "this warpverbs-perf was built without librdmacm",
                    "Install librdmacm-dev and build it again, or leave out -R");
}
#endif

}  // namespace warpverbs::perf
