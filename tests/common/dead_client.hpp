#pragma once

/// A shell command: a client that connects to $port of this machine, greets as TcpExchange::Connect() does,
/// and dies.
inline constexpr char kDeadClient[] =
    "bash -c \"exec 5<>/dev/tcp/127.0.0.1/$port; printf 'WVEx\\0\\2\\0\\0' >&5\" || exit 7\n";
