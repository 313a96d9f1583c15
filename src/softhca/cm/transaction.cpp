#include "cm/transaction.hpp"

namespace softhca::cm {

void Transaction::OnTime(uint64_t now_ns) {
  if (now_ns < deadline_ns_) return;
  if (pending_ && retries_left_ > 0) {
    --retries_left_;
    SendAgain();
    SetDeadline(TimeoutNs(kResponseTimeout));
    return;
  }
  StopWaiting();
  OnExpiry();
}

void Transaction::Release() {
  user_ = nullptr;
  released_ = true;
  Leave();
}

void Transaction::StopWaiting() {
  pending_.reset();
  deadline_ns_ = UINT64_MAX;
}

void Transaction::SetDeadline(uint64_t ns_from_now) {
  deadline_ns_ = outlet_.NowNs() + ns_from_now;
  outlet_.Arm(deadline_ns_);
}

}  // namespace softhca::cm
