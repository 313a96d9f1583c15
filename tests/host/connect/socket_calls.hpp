#pragma once

/// Makes socket calls of a thread fail: this program defines recv(), sendmsg(), poll() and so on, which take
/// precedence over the C library's.
/// before those of the C library.
namespace warpverbs::inline v0_2::host {

struct SocketFault {
  int call = -1;           ///< index of this thread's call that fails, from 0; -1: none
  int error = 0;           ///< errno value
  bool piecewise = false;  ///< recv() and send() move one byte, and every second call is interrupted
};

/// Sets this thread's fault and restarts the count at 0.
void Inject(const SocketFault& fault);

/// Returns how many socket calls this thread has made since Inject().
int SocketCalls();

}  // namespace warpverbs::inline v0_2::host
