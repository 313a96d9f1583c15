#pragma once

#include "core/engine.hpp"

namespace softhca::uverbs {

/// The Ethernet address behind a GID, which a kernel would ask its neighbour table for.
///
/// @return  of this process's own ports theirs; else the one that a link-local GID is made of, or one made of
///          the IPv4 address
Mac ResolveMac(const Engine& engine, const Gid& gid);

}  // namespace softhca::uverbs
