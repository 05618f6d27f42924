#!/usr/bin/python3
"""What a second rank brings, and what it costs that the bits do not depend on the ranks.

Runs `oxrse bench train` of the same global batch in turns: alone on one thread, and as ranks of one thread each with mpirun, with
comm.deterministic on and off and parallel.zero 0 and 1. Prints tokens/s of each (median over the turns, least and most), the ratio to one rank
alone with the same settings, and by how much the deterministic order is slower than the fast one.

usage: benchmarks/two_ranks.py [--oxrse build/oxrse] [--ranks 2] [--turns 3] [--steps 4] [--dtype bf16|f32|all] [--json FILE]
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

# The shape of model_zoo/recipes/gpt2-12m.json.
MODEL, TRAIN = "small/12m", {"global_batch": 32, "micro_batch": 8, "context": 256}


def measure(options, folder, ranks, dtype, deterministic, zero):
    """Tokens/s and milliseconds of communication that are not hidden."""
    config, out = os.path.join(folder, "config.json"), os.path.join(folder, "out.json")
    with open(config, "w") as file:
        json.dump({"model": MODEL, "train": TRAIN, "precision": {"compute": dtype}, "data": {"bpe_vocab": 4096},
                   "comm": {"deterministic": deterministic}, "parallel": {"zero": zero}}, file)
    command = [options.oxrse, "bench", "train", config, "--threads", "1", "--steps", str(options.steps), "--json", out]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks)] + command
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    with open(out) as file:
        summary = json.load(file)["summary"]
    assert summary["ranks"] == ranks and summary["tokens"] == TRAIN["global_batch"] * TRAIN["context"]
    return summary["tokens_per_s"], summary["comm_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oxrse", default="build/oxrse")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--dtype", choices=["bf16", "f32", "all"], default="all")
    parser.add_argument("--json")
    options = parser.parse_args()

    rows = []
    for dtype in ["bf16", "f32"] if options.dtype == "all" else [options.dtype]:
        cases = [(ranks, deterministic, zero) for deterministic in (True, False)
                 for ranks, zero in ((1, 0), (options.ranks, 0), (options.ranks, 1))]
        found = {case: [] for case in cases}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(options.turns):
                order = cases[turn % len(cases):] + cases[:turn % len(cases)]  # nobody always comes first
                for case in order:
                    ranks, deterministic, zero = case
                    found[case].append(measure(options, folder, ranks, dtype, deterministic, zero))
        speed = {case: statistics.median(s for s, _ in found[case]) for case in cases}
        for ranks, deterministic, zero in cases:
            values = found[ranks, deterministic, zero]
            row = {"dtype": dtype, "ranks": ranks, "deterministic": deterministic, "zero": zero,
                   "tokens_per_s": speed[ranks, deterministic, zero], "least": min(s for s, _ in values), "most": max(s for s, _ in values),
                   "comm_ms": statistics.median(c for _, c in values),
                   "to_one_rank": speed[ranks, deterministic, zero] / speed[1, deterministic, 0],
                   "to_fast": speed[ranks, deterministic, zero] / speed[ranks, False, zero]}
            rows.append(row)
            print(f"{dtype:5} {ranks} rank{'s' if ranks > 1 else ' '} zero {zero} {'deterministic' if deterministic else 'fast':13} "
                  f"{row['tokens_per_s']:8.0f} tokens/s ({row['least']:.0f} to {row['most']:.0f}), communication {row['comm_ms']:6.1f} ms, "
                  f"{row['to_one_rank']:.2f} times one rank, {row['to_fast']:.2f} times fast", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
