"""Where the arrays of the examples are: numpy's, or torch's on the processor or on a GPU."""

import argparse

HELP = "arrays: cpu: of numpy, torch: of torch, cuda:N: of torch on a GPU (cpu)"


def parse_device(description):
    """Returns the value of --device, the only option of a program."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="cpu", help=HELP)
    return parser.parse_args().device


def on_device(array, device):
    """Returns an array of numpy as it is for "cpu", or a tensor with its values for "torch" and "cuda:0".

    Raises ImportError: torch is not installed.
    """
    if device == "cpu":
        return array
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"Cannot make tensors for --device {device}: {error}. Install torch for this Python (Debian: "
                          "python3-torch), or leave --device out.") from error
    return torch.from_numpy(array).to("cpu" if device == "torch" else device)
