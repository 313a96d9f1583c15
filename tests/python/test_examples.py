"""Each example runs as a program, and ends with its success."""

import os
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


def run(name, *arguments, env=None):
    return subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=2 * SOON, env=env)


@pytest.mark.parametrize("name, end", ENDS.items(), ids=ENDS)
def test_example_succeeds(name, end):
    done = run(name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == end


@pytest.mark.parametrize("name", [*ENDS, "triton_interchange.py"])
def test_example_is_short(name):
    assert len((EXAMPLES / name).read_text().splitlines()) < 80


@pytest.mark.parametrize("name", ["interchange.py", "all_to_all.py", "pull_blocks.py"])
def test_example_takes_torch_tensors(name):
    pytest.importorskip("torch", reason="torch is not installed")
    done = run(name, "--device", "torch")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == ENDS[name]


def test_interchange_without_torch_names_its_package(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run("interchange.py", "--device", "torch", env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 1 and "No module named 'torch'. Install torch" in done.stderr


def test_interchange_says_what_is_wrong():
    done = run("interchange.py", "--nic", "mlx5_77")
    assert done.returncode == 1 and done.stderr.startswith("Cannot open")
