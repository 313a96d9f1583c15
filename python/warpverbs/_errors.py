"""The exceptions of the package."""

from typing import Any


class Error(RuntimeError):
    """A failed set-up, as one sentence and a remedy: "Cannot <step> <object>: <reason>. <Remedy>."

    Its parts are attributes. Wrong arguments raise ValueError, TypeError or IndexError instead.
    """

    step: str  #: what was tried, as a verb phrase
    object: str  #: on what
    reason: str  #: why it failed
    remedy: str  #: what the user can do
    error_number: int  #: an errno value; 0 where no system call failed
    syndrome: int  #: the firmware's; 0 where it refused nothing

    def __init__(self, sentence: str, *, step: str = "", object: str = "", reason: str = "", remedy: str = "",
                 error_number: int = 0, syndrome: int = 0) -> None:
        super().__init__(sentence)
        self.step = step
        self.object = object
        self.reason = reason
        self.remedy = remedy
        self.error_number = error_number
        self.syndrome = syndrome


class ClosedError(Error):
    """An object was used after its close()."""


class ForkError(Error):
    """An object was used in a process that was forked from the one that made it."""


class OperationError(Error):
    """An operation of a queue failed. The queue accepts no other until Endpoint.reset(), unless it timed out."""

    vendor_syndrome: int  #: the firmware's; `syndrome` is that of the verbs, 0 if the NIC reported none
    wqe_index: int  #: index of the failed entry, modulo 2^16

    def __init__(self, sentence: str, *, vendor_syndrome: int = 0, wqe_index: int = 0, **parts: Any) -> None:
        super().__init__(sentence, **parts)
        self.vendor_syndrome = vendor_syndrome
        self.wqe_index = wqe_index


class OperationTimeout(OperationError, TimeoutError):
    """An operation did not complete in time. The NIC may still use its memory, until Endpoint.reset().

    Where calls of other threads took the time, it was not started: the sentence says so.
    """


class TransportError(Error):
    """An operation of a transport failed."""


class TransportTimeout(TransportError, TimeoutError):
    """The timeout passed. After a write or a read the NIC may still use the memory; the transport keeps it."""


class TransportAborted(TransportError):
    """The transport was closed or reset."""


class TransportInvalid(TransportError, ValueError):
    """The call is invalid: nothing was sent, and the transport is unchanged."""


class TransportAccessDenied(TransportError, PermissionError):
    """The peer's NIC refused a key or a range. The transport is broken until its reset()."""
