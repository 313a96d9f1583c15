#!/usr/bin/env python3
"""Sends messages by the transport from asyncio: writes with a notification, and waits for them.

Each side is a task here; two programs would send URL and memory to each other by a socket.

    softhca --devx-events -- python3 examples/python/asyncio_transport.py
"""

import asyncio

import numpy

from warpverbs.transport import RemoteBuffer, Transport

MESSAGES, NUMBERS = 100, 1000


class Link:
    """Text to the other side and from it."""

    def __init__(self, mine, theirs):
        self._mine, self._theirs = mine, theirs

    async def swap(self, word):
        await self._mine.put(word)
        return await self._theirs.get()


async def send(link):
    with Transport() as transport:
        transport.connect(await link.swap(transport.bind()))
        target = RemoteBuffer(*await link.swap(None))
        message = numpy.zeros(NUMBERS, numpy.int64)
        memory = transport.register(message)
        for number in range(MESSAGES):
            message[:] = number
            await transport.write(memory, target, notify=True)
            await transport.wait_for_write(timeout=10)  # the other side has read it
        await link.swap("end")


async def receive(link):
    with Transport() as transport:
        transport.connect(await link.swap(transport.bind()))
        message = numpy.zeros(NUMBERS, numpy.int64)
        memory = transport.register(message)
        taken = transport.register(b"taken")
        target = memory.remote()
        await link.swap(target)
        # The sender has no memory for an answer: an empty write carries the notification alone.
        for number in range(MESSAGES):
            await transport.wait_for_write(timeout=10)
            if not (message == number).all():
                raise SystemExit(f"Message {number} is wrong.")
            await transport.write(taken, target, nbytes=0, notify=True)
        await link.swap("end")


async def main():
    to_receiver, to_sender = asyncio.Queue(), asyncio.Queue()
    await asyncio.gather(send(Link(to_receiver, to_sender)), receive(Link(to_sender, to_receiver)))
    print(f"Success! {MESSAGES} messages of {NUMBERS} numbers arrived")


if __name__ == "__main__":
    asyncio.run(main())
