#!/usr/bin/env python3
"""Compiles kernels.cu for a GPU and holds the memory operations of its kernels against what the data path may cost.

usage: check_isa.py {ptx|gcn} COMPILER OPTION...
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# What counts as a memory operation, how a kernel begins and ends, and what its release and acquire look like.
ISA = {
    "ptx": {
        "kernel": r"\.entry {name}\(.*?\n\}}",
        "operation": r"(?:st|ld|atom|red)\.(?!param|local)\S+|fence\.\S+(?=;)",
        "segment": ["st.global.v2.b64"],
        "release": ["fence.release.{scope}"],
        "acquire": ["fence.acquire.sys"],
        "record": ["st.relaxed.sys.global.b32"],
        "doorbell": ["st.mmio.relaxed.sys.global.b64"],
        "tail": ["ld.relaxed.sys.global.v2.b64"],
        "hand_over": ["red.relaxed.gpu.global.add.u64"],
        "in a put": {"segment": 3, "release": 2, "doorbell": 1},
    },
    "gcn": {
        "kernel": r"\n{name}:.*?s_endpgm",
        "operation": r"(?:global|flat)_\w+|buffer_wbl2|buffer_inv\w+|buffer_wbinv\w+",
        "segment": ["global_store_dwordx4"],
        "release": ["buffer_wbl2"],
        "acquire": ["buffer_invl2", "buffer_wbinvl1_vol"],
        "record": ["global_store_dword"],
        "doorbell": ["global_store_dwordx2"],
        "tail": ["flat_load_dwordx4"],
        "hand_over": ["global_atomic_add_x2"],
        "in a put": {"segment": 3},  # its acquires write back too, and Save() stores as a doorbell does
    },
}


def operations(isa, assembly, kernel):
    """The memory operations of a kernel, in the order of its text."""
    body = re.search(isa["kernel"].format(name=kernel), assembly, re.DOTALL)
    if body is None:
        sys.exit(f"no kernel {kernel} in the compiler's output")
    return re.findall(isa["operation"], body.group())


def check(isa, assembly, scope):
    """One line for each kernel that costs other memory operations than it should."""
    release = [name.format(scope=scope) for name in isa["release"]]
    problems = []

    def expect(kernel, what, found, wanted):
        if found != wanted:
            problems.append(f"{kernel}: {what}: expected {wanted}, found {found}")

    post = 3 * isa["segment"] + release + isa["record"] + release + isa["doorbell"]
    expect("Post", "operations", operations(isa, assembly, "Post"), post)

    poll = operations(isa, assembly, "Poll")
    expect("Poll", "first operation", poll[:1], isa["tail"])
    expect("Poll", "looks at the CQE", poll.count(isa["tail"][0]), 1)
    expect("Poll", "acquires", [name for name in poll if name in isa["acquire"]], isa["acquire"])

    # A shared queue costs one release more, and the add that it goes with.
    for kernel, shared in (("PutExclusive", 0), ("PutShared", 1)):
        wanted = isa["in a put"] | {"hand_over": shared}
        if "release" in wanted:
            wanted["release"] += shared
        names = {part: isa[part][0].format(scope=scope) for part in wanted}
        put = operations(isa, assembly, kernel)
        expect(kernel, "operations", {part: put.count(name) for part, name in names.items()}, wanted)
    return problems


def main(kind, compiler, *options):
    source = pathlib.Path(__file__).with_name("kernels.cu")
    with tempfile.TemporaryDirectory() as folder:
        assembly = pathlib.Path(folder) / "kernels.s"
        subprocess.run([compiler, *options, str(source), "-o", str(assembly)], check=True)
        scope = "sys" if "-DARCH=CudaSystem" in options else "gpu"
        problems = check(ISA[kind], assembly.read_text(), scope)
    print("\n".join(problems) or "every kernel costs what it should")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
