// The two programs.
#pragma once

#include <iosfwd>

#include "options.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace rdma_demo {

/// Serves one client, and prints what happens and a summary.
///
/// @return  whether nothing failed, on either side
/// @errors  host::Error, std::runtime_error: it could not go on; the summary of what was done is printed
bool Serve(warpverbs::host::TcpListener listener, const Options& options, std::ostream& out);

/// The same for the client of a server.
bool Visit(const Options& options, std::ostream& out);

}  // namespace rdma_demo
