#pragma once

/// Lets the socket calls of a thread fail: this program's own recv(), sendmsg(), poll() and so on stand
/// before those of the C library.
namespace warpverbs::host {

struct SocketFault {
  int call = -1;           ///< which call of this thread from now on fails, from 0; -1: none
  int error = 0;           ///< as errno has it
  bool piecewise = false;  ///< recv() and send() carry one byte each, and every other one is interrupted
};

/// Sets what is to fail in this thread, and counts from 0 again.
void Inject(const SocketFault& fault);

/// How many socket calls this thread has made since Inject().
int SocketCalls();

}  // namespace warpverbs::host
