#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "warpverbs/device/status.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"

/// What all bindings share: objects that may be closed, the GIL, and arguments with a sentence if they are
/// wrong.
namespace warpverbs::python {

namespace py = pybind11;
using namespace py::literals;

/// Returns the docstring that _core.pyi has of a class, function or method: "Endpoint.info".
const char* Doc(std::string_view name);

/// A call of an object that was closed: warpverbs.ClosedError.
class ClosedError : public host::Error {
 public:
  explicit ClosedError(const std::string& object)
      : Error("use", object, "it was closed", "Keep it open as long as it is used") {}
};

/// A call that calls of other threads kept from starting in time: warpverbs.OperationTimeout.
class CallTimeout : public host::Error {
 public:
  explicit CallTimeout(const std::string& object)
      : Error("use", object, "calls of other threads did not end in time",
              "Wait for them, end them by abort(), or pass a longer timeout") {}
};

/// A call of an object of the parent process: warpverbs.ForkError.
class ForkError : public host::Error {
 public:
  explicit ForkError(const std::string& object)
      : Error("use", object, "this process was forked from the one that made it",
              "Make objects after the fork, or start processes with the method spawn") {}
};

/// An operation of a queue that failed: warpverbs.OperationError, or OperationTimeout.
class OperationError : public std::exception {
 public:
  OperationError(const device::Status& status, std::string sentence)
      : status_(status), sentence_(std::move(sentence)) {}

  const device::Status& status() const { return status_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  device::Status status_;
  std::string sentence_;
};

/// Zeroed memory for objects of Python: pybind11 calls methods on it, without a constructor, where a program
/// makes an object by __new__ alone. Such an object looks closed.
struct ZeroedMemory {
  static void* operator new(size_t bytes) {
    void* const memory = std::calloc(1, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  static void* operator new(size_t, void* place) { return place; }
  static void operator delete(void* memory) { std::free(memory); }
};

/// Calls a function that takes the GIL.
///
/// At the interpreter's end Python unwinds a daemon thread that takes the GIL, through destructors and frames
/// that end the program if they are unwound. Such a thread sleeps instead, until the process has gone.
///
/// @source  CPython 3.11, Python/ceval_gil.h, take_gil()
template <class Function>
void TakeGil(const Function& take) {
  try {
    take();
  } catch (const abi::__forced_unwind&) {
    while (true) pause();
  }
}

/// Releases the GIL as long as it lives.
class GilRelease {
 public:
  GilRelease() : thread_(PyEval_SaveThread()) {}
  ~GilRelease() {
    TakeGil([this] { PyEval_RestoreThread(thread_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* thread_;
};

/// Takes the GIL as long as it lives.
class GilAcquire {
 public:
  GilAcquire() {
    TakeGil([this] { gil_.emplace(); });
  }

 private:
  std::optional<py::gil_scoped_acquire> gil_;
};

/// An object that Python closes or forgets while other objects and calls still use it: it is destroyed after
/// the last of them. A forked child has a copy, which it never destroys: NIC objects stay the parent's.
///
/// What the object holds must contain nothing of Python: it may be destroyed without the GIL.
template <class T>
class Handle : public ZeroedMemory {
 public:
  /// @param name  for errors: "the device mlx5_0"
  Handle(std::string name, std::unique_ptr<T> object)
      : name_(std::move(name)), owner_(getpid()), object_(object.release(), [owner = owner_](T* one) {
          if (getpid() == owner) delete one;
        }) {}

  /// @errors  ClosedError, ForkError
  std::shared_ptr<T> Get() const {
    if (!object_) throw ClosedError(name_.empty() ? "an object without __init__()" : name_);
    if (getpid() != owner_) throw ForkError(name_);
    return object_;
  }

  const std::string& name() const { return name_; }
  bool closed() const { return !object_; }

  /// Forgets the object. If this was its last use, it is destroyed without the GIL.
  void Close() {
    std::shared_ptr<T> gone = std::move(object_);
    const GilRelease release;
    gone.reset();
  }

 private:
  std::string name_;
  pid_t owner_;
  std::shared_ptr<T> object_;
};

/// Calls a function without the GIL.
template <class Function>
auto WithoutGil(const Function& function) {
  const GilRelease release;
  return function();
}

/// Runs Python's handlers of signals that have come. Needs no GIL.
///
/// Only the main thread runs handlers, so others need not take the GIL.
///
/// @errors  what a handler raises: KeyboardInterrupt
inline void CheckSignals() {
  if (gettid() != getpid()) return;
  const GilAcquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// Makes the calls of an object exclude each other: see CallLock.
struct CallMutex {
  std::timed_mutex mutex;
  std::atomic<std::thread::id> user{};  ///< thread that has it
  std::atomic<int> waiting{};           ///< threads that wait for it
};

/// Makes the calls of an object exclude each other, so that threads may share it. Take it without the GIL.
class CallLock {
 public:
  /// @param name      returns the object's name, for errors
  /// @param deadline  of the call: the wait for other calls ends then
  /// @errors  Error: this thread has it, in a call that called Python; CallTimeout; what a signal's handler
  ///          raises
  template <class Name>
  CallLock(CallMutex& mutex, const Name& name, host::Deadline deadline = host::Deadline::max())
      : mutex_(mutex) {
    if (mutex.user.load() == std::this_thread::get_id())
      throw host::Error("use", name(), "this thread is in another call of it", "Let that call return first");
    const Waiter waiter(mutex.waiting);
    while (true) {
      const auto next_check = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      if (mutex.mutex.try_lock_until(std::min(next_check, deadline))) break;
      if (deadline <= next_check) throw CallTimeout(name());
      CheckSignals();
    }
    mutex.user.store(std::this_thread::get_id());
  }
  ~CallLock() {
    mutex_.user.store({});
    mutex_.mutex.unlock();
  }
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;

 private:
  /// Counts a waiting thread.
  class Waiter {
   public:
    explicit Waiter(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
    ~Waiter() { count_.fetch_sub(1); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    std::atomic<int>& count_;
  };

  CallMutex& mutex_;
};

/// Waits while other calls wait for the mutex, at most until a deadline. A call that takes it again and again
/// would starve them.
///
/// @errors  what a signal's handler raises
inline void LetOthersCall(const CallMutex& mutex, host::Deadline deadline) {
  while (mutex.waiting.load() != 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    CheckSignals();
  }
}

/// Returns the deadline of a call.
///
/// @param timeout  in seconds; None: no end
/// @errors  ValueError: negative or not a number
host::Deadline DeadlineOf(const py::object& timeout);

/// Returns a time of a setting; one of more than 30 years is as long as that.
///
/// @errors  ValueError: negative or not a number
std::chrono::nanoseconds Seconds(double seconds, const char* name);

/// Replaces `value` by the entry of that name, if the settings have one.
///
/// @errors  ValueError: the entry has another type, or is out of range
template <class T>
void Take(const py::dict& settings, const char* name, T& value) {
  if (!settings.contains(name)) return;
  const py::object entry = settings[name];
  try {
    value = entry.cast<T>();
  } catch (const py::cast_error&) {
    std::string range = "a value of the type that the documentation says";
    if constexpr (std::is_same_v<T, bool>) {
      range = "True or False";
    } else if constexpr (std::is_integral_v<T>) {
      range = "an integer of " + std::to_string(std::numeric_limits<T>::min()) + " to " +
              std::to_string(std::numeric_limits<T>::max());
    }
    throw py::value_error("Cannot use " + std::string(py::repr(entry)) + " as " + name +
                          ": it is out of range. Pass " + range + ".");
  }
}

/// Replaces `value` by the one whose name the settings have.
///
/// @errors  ValueError: names all choices
template <class T>
void Choose(const py::dict& settings, const char* name,
            std::initializer_list<std::pair<const char*, T>> choices, T& value) {
  if (!settings.contains(name)) return;
  const std::string wanted = py::str(settings[name]);
  std::string all;
  for (const auto& [text, choice] : choices) {
    if (wanted == text) {
      value = choice;
      return;
    }
    all += (all.empty() ? "'" : ", '") + std::string(text) + "'";
  }
  throw py::value_error("Cannot use '" + wanted + "' as " + name + ": it is unknown. Pass one of " + all +
                        ".");
}

/// Lets the garbage collector see the Python object that a class owns, so that a cycle through it is
/// collected. Needs owner() and Close(), which forgets the owner.
template <class T>
py::custom_type_setup CollectOwner() {
  return py::custom_type_setup([](PyHeapTypeObject* heap_type) {
    PyTypeObject& type = heap_type->ht_type;
    // An object without a value has not left its constructor, or has none.
    static const auto value_of = [](PyObject* object) {
      return static_cast<T*>(
          reinterpret_cast<py::detail::instance*>(object)->get_value_and_holder().value_ptr());
    };
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* object, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(object));
      if (const T* const value = value_of(object)) Py_VISIT(value->owner().ptr());
      return 0;
    };
    type.tp_clear = [](PyObject* object) {
      if (T* const value = value_of(object)) value->Close();
      return 0;
    };
  });
}

/// Adds close(), closed and the context manager to a class with Close() and closed().
template <class Class>
void BindClose(Class& bound) {
  using T = typename Class::type;
  bound.def("close", &T::Close, Doc("_Closeable.close"))
      .def_property_readonly("closed", &T::closed)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](T& self, const py::args&) { self.Close(); });
}

/// Returns a named tuple of warpverbs._types.
template <class... Fields>
py::object MakeTuple(const char* type, Fields&&... fields) {
  return py::module_::import("warpverbs._types").attr(type)(std::forward<Fields>(fields)...);
}

void BindDevices(py::module_& module);
void BindMemory(py::module_& module);
void BindShared(py::module_& module);
void BindEndpoint(py::module_& module);
void BindChannel(py::module_& module);
void BindExchange(py::module_& module);
void BindTransport(py::module_& module);

}  // namespace warpverbs::python
