"""Memory of torch, CuPy and JAX on the GPU as both sides of an operation that the host posts."""

import os

from common import arguments, check, report

import torch
import warpverbs

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the GPU's memory


def pairs(bytes_):
    """Yields a name, two arrays, and a function that tells whether the second has the content of the first."""

    def same(a, b):
        return torch.equal(a.detach().view(torch.uint8), b.detach().view(torch.uint8))

    raw = torch.randint(1, 100, (bytes_,), dtype=torch.uint8, device="cuda:0")
    for dtype in (torch.uint8, torch.float32, torch.bfloat16, torch.int64, torch.float8_e4m3fn):
        yield str(dtype), raw.clone().view(dtype), torch.zeros_like(raw).view(dtype), same
    yield "a tensor of the host", raw.cpu().clone(), torch.zeros_like(raw), lambda a, b: torch.equal(a, b.cpu())
    yield "pinned memory", raw.clone(), torch.zeros(bytes_, dtype=torch.uint8, pin_memory=True), lambda a, b: torch.equal(a.cpu(), b)
    try:
        import cupy

        yield "cupy", cupy.arange(bytes_ // 4), cupy.zeros(bytes_ // 4, cupy.int64), lambda a, b: bool((a == b).all())
    except ImportError as error:
        print(f"without CuPy: {error}")
    try:
        import jax
        import jax.numpy

        a = jax.numpy.arange(bytes_ // 4, dtype=jax.numpy.int32).block_until_ready()
        print(f"JAX {jax.__version__} on {a.devices()}")
        try:
            warpverbs.Region(warpverbs.Device(), a).close()
        except warpverbs.Error as error:
            check("cuMemCreate" in str(error), f"JAX: {error}")
            print(f"without JAX, whose memory needs dma-bufs: {error}")
            return
        yield "jax, as a source", a, torch.zeros(bytes_ // 4, dtype=torch.int32), lambda a, b: a.tolist() == b.tolist()
    except (ImportError, RuntimeError) as error:
        print(f"without JAX: {error}")


def main():
    options = arguments(__doc__, bytes=1 << 16)
    nic = warpverbs.Device()
    a, b = warpverbs.Endpoint(nic), warpverbs.Endpoint(nic)
    a.connect(b.info())
    b.connect(a.info())

    def register(array, **rights):
        try:
            return warpverbs.Region(nic, array, **rights)
        except ValueError as error:  # a type of elements that DLPack does not have
            print(error)
            return warpverbs.Region(nic, array.view(torch.uint8), **rights)

    done = []
    for name, source, target, same in pairs(options.bytes):
        torch.cuda.synchronize()
        local, landing = register(source), register(target, remote_write=True)
        check(local.nbytes <= landing.nbytes, f"{name}: {local.nbytes} bytes into {landing.nbytes}")
        local.flush("nic")
        a.write(local, landing.remote(), timeout=20)
        landing.flush("gpu")
        check(same(source, target), f"{name}: the target is wrong")
        print(f"{name}: {local.method} to {landing.method}", flush=True)
        done.append(name)
    return f"writes between {len(done)} kinds of arrays: {', '.join(done)}"


if __name__ == "__main__":
    report(main)
