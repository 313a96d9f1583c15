// The module warpverbs._core: what the package's Python parts are made of. It is no interface of its own.
#include <algorithm>

#include "binding.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::python {
namespace {

constexpr double kForever = 1e9;  // seconds

py::object ErrorType(const char* name) { return py::module_::import("warpverbs._errors").attr(name); }

void Raise(const char* type, const host::Error& error) {
  const py::object made = ErrorType(type)(
      error.what(), "step"_a = error.step(), "object"_a = error.object(), "reason"_a = error.reason(),
      "remedy"_a = error.remedy(), "error_number"_a = error.error_number(), "syndrome"_a = error.syndrome());
  PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
}

void Raise(const OperationError& error) {
  const device::Status& status = error.status();
  const bool timeout = status.code == device::Code::kTimeout;
  const py::object made = ErrorType(timeout ? "OperationTimeout" : "OperationError")(
      error.what(), "syndrome"_a = status.syndrome, "vendor_syndrome"_a = status.vendor_syndrome,
      "wqe_index"_a = status.wqe_index);
  PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
}

void Translate(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const ClosedError& error) {
    Raise("ClosedError", error);
  } catch (const ForkError& error) {
    Raise("ForkError", error);
  } catch (const CallTimeout& error) {
    Raise("OperationTimeout", error);
  } catch (const OperationError& error) {
    Raise(error);
  } catch (const host::Error& error) {
    Raise("Error", error);
  }
}

}  // namespace

host::Deadline DeadlineOf(const py::object& timeout) {
  if (timeout.is_none()) return host::Deadline::max();
  const double seconds = timeout.cast<double>();
  if (!(seconds >= 0)) {
    throw py::value_error("Cannot wait " + std::string(py::repr(timeout)) +
                          " s: it is no time. Pass seconds, 0 or more, or None.");
  }
  if (seconds > kForever) return host::Deadline::max();
  return host::DeadlineIn(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

std::chrono::nanoseconds Seconds(double seconds, const char* name) {
  if (!(seconds >= 0)) {
    throw py::value_error("Cannot use " + std::string(py::repr(py::float_(seconds))) + " s as " + name +
                          ": it is no time. Pass seconds, 0 or more.");
  }
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, kForever) * 1e9));
}

}  // namespace warpverbs::python

PYBIND11_MODULE(_core, module) {
  using namespace warpverbs::python;
  py::register_local_exception_translator(Translate);
  module.attr("__version__") = warpverbs::Version();
  BindDevices(module);
  BindMemory(module);
  BindShared(module);
  BindEndpoint(module);
  BindChannel(module);
  BindExchange(module);
#if WARPVERBS_PYTHON_TRANSPORT
  BindTransport(module);
#endif
}
