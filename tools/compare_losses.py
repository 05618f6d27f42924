#!/usr/bin/python3
"""Compares the losses of two runs, step by step: a run on a device and the same run on the CPU.

Both have rounded everything to bf16 in other places, so they drift apart slowly. --tolerance is the most that losses may differ, relative to the
CPU's. Its default, 2%, is 40 times what another order of sums does on the CPU: over 100 steps of gpu_check's run in bf16 with a micro-batch of 1 instead of
4, losses of small/3m differ by at most 0.05% and those of small/12m by 0.04%. In f32 instead of bf16 they differ by 0.3% and 2.9%: a device that
rounded in quite other places than the CPU could fail, and should be looked at. GPT-2 124M itself and a GPU have not been measured.

usage: tools/compare_losses.py CPU/metrics.jsonl DEVICE/metrics.jsonl [--tolerance 0.02] [--json FILE]
"""
import argparse
import json
import math
import sys


def losses(path):
    """{step: loss} of a metrics.jsonl."""
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["step"]: float("nan") if row["loss"] is None else row["loss"] for row in rows if "loss" in row}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("reference")
    p.add_argument("device")
    p.add_argument("--tolerance", type=float, default=0.02)
    p.add_argument("--json")
    a = p.parse_args()
    expected, got = losses(a.reference), losses(a.device)
    if not expected or expected.keys() != got.keys():
        sys.exit(f"compare_losses: {a.reference} has {len(expected)} steps and {a.device} has {len(got)}: expected the same ones")
    worst = max(expected, key=lambda s: math.inf if math.isnan(got[s]) else abs(got[s] / expected[s] - 1))
    difference = abs(got[worst] / expected[worst] - 1)
    last = max(expected)
    print(f"{len(expected)} steps, loss {expected[min(expected)]:.4f} to {expected[last]:.4f} on the CPU and to {got[last]:.4f}; "
          f"the largest difference is {100 * difference:.3f}%, at step {worst}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"reference": expected, "device": got, "largest_difference": difference, "tolerance": a.tolerance}, file, indent=1)
    if not difference <= a.tolerance:
        sys.exit(f"compare_losses: more than {100 * a.tolerance}%")


if __name__ == "__main__":
    main()
