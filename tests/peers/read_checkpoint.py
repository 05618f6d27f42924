#!/usr/bin/env python3
"""Reads every tensor of a checkpoint with h5py and nothing of Oxrse: puts the pieces together by the attributes of the datasets.

usage: tests/peers/read_checkpoint.py STEP_DIRECTORY OUT      (needs h5py: Debian python3-h5py)

Writes OUT/<name>.<part> for each: the elements as f64, row-major. Fails where elements are missing or there twice, or a shard does not say whose
it is.
"""

import pathlib
import sys

import h5py
import numpy as np


def datasets(shard):
    """(name, part, dataset) of all tensors of a shard, those behind links too."""
    for name in shard["model"]:
        yield name, "model", shard["model"][name]
    for name, parts in shard["optim"].items():
        for part in parts:
            yield name, part, parts[part]


def numbers(attribute):
    """An attribute that is a list of numbers; of a scalar's dataset it may be empty."""
    return () if isinstance(attribute, h5py.Empty) else tuple(attribute)


def put(tensor, seen, dataset):
    values = dataset.astype("f8")[()]
    if "flat_range" in dataset.attrs:
        begin, end = dataset.attrs["flat_range"]
        tensor.reshape(-1)[begin:end] = values
        seen.reshape(-1)[begin:end] += 1
    else:
        box = tuple(slice(first, first + size) for first, size in zip(numbers(dataset.attrs["offset"]), dataset.shape))
        tensor[box] = values
        seen[box] += 1


def main():
    step, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tensors = {}
    for path in sorted(step.glob("shard_r*.h5")):
        with h5py.File(path) as shard:
            rank, world = int(path.stem[-5:]), shard.attrs["world"]
            assert shard.attrs["writer_rank"] == rank < world and step.name.endswith(str(shard.attrs["step"])), path
            for name, part, dataset in datasets(shard):
                shape = numbers(dataset.attrs["global_shape"])
                if (name, part) not in tensors:
                    tensors[name, part] = np.full(shape, np.nan), np.zeros(shape, int)
                put(*tensors[name, part], dataset)
    for (name, part), (tensor, seen) in tensors.items():
        assert (seen == 1).all(), f"{name} ({part}): elements are missing or there twice"
        tensor.tofile(out / f"{name}.{part}")


if __name__ == "__main__":
    main()
