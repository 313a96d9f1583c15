#pragma once

#include <pthread.h>

#include <cstddef>
#include <stdexcept>

namespace warpverbs::tests {

/// While an object of this class lives, no thread can be started: there is no address space for its stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge;
    Demand(pthread_getattr_default_np(&usual_));
    Demand(pthread_getattr_default_np(&huge));
    Demand(pthread_attr_setstacksize(&huge, size_t{1} << 47));
    Demand(pthread_setattr_default_np(&huge));
  }
  ~NoThreads() { pthread_setattr_default_np(&usual_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static void Demand(int error) {
    if (error != 0) throw std::runtime_error("the attributes of threads cannot be changed");
  }

  pthread_attr_t usual_;
};

}  // namespace warpverbs::tests
