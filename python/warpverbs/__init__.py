"""RDMA verbs for GPU kernels, from Python: devices, memory, queue pairs and their connections.

A kernel writes to a peer by an Endpoint's `queue`; host programs use warpverbs.transport. Every failure is an
exception with a sentence that says what to do. docs/python.md is the guide.
"""

import os as _os
from importlib.machinery import EXTENSION_SUFFIXES as _suffixes

from warpverbs import _errors  # first: the module needs the exceptions

_folder_of_package = _os.path.dirname(_os.path.abspath(__file__))
if not any(_os.path.exists(_os.path.join(_folder_of_package, "_core" + suffix)) for suffix in _suffixes):
    _built = sorted(name for name in _os.listdir(_folder_of_package) if name.startswith("_core.") and not name.endswith(".pyi"))
    raise ImportError(f"Cannot import warpverbs from {_folder_of_package}: its module for this Python ({_suffixes[0]}) is not "
                      f"built{', only ' + ', '.join(_built) if _built else ''}. Use the Python that it was built for, build it "
                      "with -DWARPVERBS_PYTHON=<interpreter>, or take the package of the build folder.")

from warpverbs._core import (Device, EventThread, Gpu, PeerTable, QueuePool, SharedCompletions, __version__, assign_nics,
                             device_names, first_active_device, topology)
from warpverbs._endpoint import CompletionChannel, Endpoint, EndpointConfig, connect_all
from warpverbs._errors import (ClosedError, Error, ForkError, OperationError, OperationTimeout, TransportAborted,
                               TransportAccessDenied, TransportError, TransportInvalid, TransportTimeout)
from warpverbs._exchange import Exchange, MpiExchange, StoreExchange, TcpExchange, TcpListener
from warpverbs._memory import Region
from warpverbs._types import (Capabilities, EndpointCounters, Event, Gid, LocalMemory, Nic, NicChoice, NicPort, PoolUsage,
                              Port, QueueError, Received, RemoteMemory, Topology)


def include_dir() -> str:
    """Returns the folder of the C++ headers that this package brings along.

    Raises Error: the package was installed without them, as Debian's is.
    """
    return _folder("include", "warpverbs/version.hpp", "libwarpverbs-dev")


def cmake_dir() -> str:
    """Returns the folder of warpverbs-config.cmake, for CMAKE_PREFIX_PATH.

    Raises Error: the package was installed without it, as Debian's is.
    """
    return _folder("lib/cmake/warpverbs", "warpverbs-config.cmake", "libwarpverbs-dev")


def _folder(name: str, file: str, package: str) -> str:
    folder = _os.path.join(_folder_of_package, "sdk", name)
    if not _os.path.exists(_os.path.join(folder, file)):
        raise Error(f"Cannot find {file} in {folder}: this package was installed without it. Install it by pip, or "
                    f"install {package}.", step="find", object=file, reason="this package was installed without it",
                    remedy=f"Install it by pip, or install {package}")
    return folder
