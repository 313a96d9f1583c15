#pragma once

#include <cerrno>
#include <string>

/// Lets calls of this thread fail, each by itself: this program's own functions of libibverbs and libmlx5,
/// mmap() and operator new stand before those of the libraries, count, and keep a ledger of what is held.
namespace warpverbs::host {

/// What can be made to fail.
enum class FaultyCalls {
  kVerbs,   ///< what the library calls of rdma-core, and mmap()
  kMemory,  ///< operator new
};

struct CallFault {
  FaultyCalls calls = FaultyCalls::kVerbs;
  int call = -1;         ///< which call of this thread fails, from 0; -1: none
  bool lasting = false;  ///< so do all after it
  int error = ENOMEM;    ///< as errno has it; of memory it is always std::bad_alloc
};

/// While one lives, the calls of this thread are counted, and one of them may fail.
class Faulty {
 public:
  explicit Faulty(const CallFault& fault = {});
  ~Faulty();
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;

  int calls() const;           ///< so far, of the kind that was asked for
  const char* failed() const;  ///< the name of the call that failed; empty: none yet
};

/// While one lives, this thread is in a library, whose own calls and allocations are not counted.
struct InLibrary {
  InLibrary();
  ~InLibrary();
};

/// What the whole program has made of rdma-core's objects and mapped, and not given back: "2 objects, 1
/// umem"; empty: nothing.
std::string HeldByVerbs();

/// Blocks of memory that operator new gave, less those that came back. Of all threads.
long HeldBlocks();

}  // namespace warpverbs::host
