#pragma once

#include "core/link.hpp"
#include "core/qp.hpp"

namespace softhca {

/// Executes a request at the queue pair that it was sent to.
///
/// @param source  the requesting queue pair's number, path MTU and sequence number are checked against the
/// target's
Response Respond(QueuePair& target, const QueuePair& source, const Request& request);

}  // namespace softhca
