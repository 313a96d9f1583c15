#pragma once

#include <cerrno>
#include <string>

/// Makes single calls of this thread fail. This program defines functions of libibverbs and libmlx5, mmap()
/// and operator new, which take precedence over the libraries' own, count calls, and record what is held.
namespace warpverbs::inline v0_2::host {

/// Kinds of calls that can fail.
enum class FaultyCalls {
  kVerbs,   ///< the library's calls to rdma-core, and mmap()
  kMemory,  ///< operator new
};

struct CallFault {
  FaultyCalls calls = FaultyCalls::kVerbs;
  int call = -1;         ///< index of this thread's call that fails, from 0; -1: none
  bool lasting = false;  ///< whether all later calls fail, too
  int error = ENOMEM;    ///< errno value; allocations always throw std::bad_alloc
  int later_error = 0;   ///< errno value of a lasting fault after its first call; 0: `error`
};

/// While an object of this class lives, this thread's calls are counted, and one of them may fail.
class Faulty {
 public:
  explicit Faulty(const CallFault& fault = {});
  ~Faulty();
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;

  int calls() const;           ///< calls of the requested kind so far
  const char* failed() const;  ///< name of the failed call; empty if none failed
};

/// While an object of this class lives, this thread's calls and allocations are a library's own, which are
/// not counted.
struct InLibrary {
  InLibrary();
  ~InLibrary();
};

/// Returns the rdma-core objects and mappings that the whole program holds: "2 objects, 1 umem". Empty: none.
std::string HeldByVerbs();

/// Returns how many blocks of operator new all threads hold.
long HeldBlocks();

}  // namespace warpverbs::inline v0_2::host
