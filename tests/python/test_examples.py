"""Each example runs as a program, and ends with its success."""

import pathlib
import subprocess
import sys

import pytest

from conftest import SOON

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples/python"
ENDS = {
    "interchange.py": "Success! All 1024 bytes verified with value 42",
    "all_to_all.py": "Success! 4 processes have their 4 rows of 1000 numbers",
    "pull_blocks.py": "Success! Pulled the blocks [3, 17, 5, 63, 0] of 64",
    "asyncio_transport.py": "Success! 100 messages of 1000 numbers arrived",
    "recovery.py": "Success! The connection has recovered",
}


def run(name, *arguments):
    return subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=2 * SOON)


@pytest.mark.parametrize("name, end", ENDS.items(), ids=ENDS)
def test_example_succeeds(name, end):
    done = run(name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == end


@pytest.mark.parametrize("name", [*ENDS, "triton_interchange.py"])
def test_example_is_short(name):
    assert len((EXAMPLES / name).read_text().splitlines()) < 80


def test_interchange_takes_torch_tensors():
    pytest.importorskip("torch", reason="torch is not installed")
    assert run("interchange.py", "--device", "torch").stdout.splitlines()[-1] == ENDS["interchange.py"]


def test_interchange_says_what_is_wrong():
    done = run("interchange.py", "--nic", "mlx5_77")
    assert done.returncode == 1 and done.stderr.startswith("Cannot open")
