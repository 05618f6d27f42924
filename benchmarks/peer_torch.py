#!/usr/bin/python3
"""Training steps side by side with PyTorch, if it is installed (Debian: python3-torch). Nothing else here needs it.

Runs `oxrse bench train` and a GPT-2 of the same shape in PyTorch in turns, so that both meet the machine in the same moods, and prints the
ratio of the medians over all turns.

usage: benchmarks/peer_torch.py [--oxrse build/oxrse] [--turns 3] [--steps 4] [--threads N] [--model 124m|124m-long|12m|all]
                                [--dtype bf16|f32|all] [--init default|small] [--device cpu|cuda] [--attention KERNELS.json]

--device cuda compares on a GPU, with PyTorch's model compiled (torch.compile). --attention also times scaled_dot_product_attention at the
shapes of the attention rows in what `oxrse bench kernels --device cuda --json KERNELS.json` wrote.

--init default leaves PyTorch's embeddings as it makes them, N(0, 1): logits are then of the order of 30, most probabilities subnormal, and
its step slower. --init small draws them from N(0, 0.02^2), as GPT-2 does. Our own side is always small.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

SHAPES = {  # name: (entry of model_zoo/models, layers, width, heads, vocabulary, batch, context)
    "124m": ("gpt2/124m", 12, 768, 12, 50257, 4, 256),
    "12m": ("small/12m", 6, 384, 6, 4096, 8, 256),
    "124m-long": ("gpt2/124m", 12, 768, 12, 50257, 16, 1024),  # for GPUs
}
TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}  # ours: PyTorch's


def synchronize(device):
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def torch_steps(shape, dtype, steps, threads, init, device):
    """Seconds of training steps in PyTorch; runs in a process of its own."""
    import time

    import torch
    from torch import nn
    from torch.nn import functional as F

    _, layers, width, heads, vocab, batch, context = SHAPES[shape]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    if device == "cuda":
        torch.set_default_device(device)
    hidden = torch.triu(torch.full((context, context), float("-inf")), diagonal=1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attend(self, x):
            q, k, v = self.qkv(x).view(batch, context, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            if hasattr(F, "scaled_dot_product_attention"):
                mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                scores = q @ k.transpose(-2, -1) * (width // heads) ** -0.5 + hidden
                mixed = scores.softmax(-1).to(v.dtype) @ v
            return self.out(mixed.transpose(1, 2).reshape(batch, context, width))

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    embedding, position = nn.Embedding(vocab, width), nn.Embedding(context, width)
    body = nn.Sequential(*[Layer() for _ in range(layers)], nn.LayerNorm(width))
    for table in (embedding, position) if init == "small" else ():
        nn.init.normal_(table.weight, std=0.02)
    parameters = [*embedding.parameters(), *position.parameters(), *body.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.1)

    def loss_of(tokens):
        x = body(embedding(tokens[:, :-1]) + position.weight)
        logits = F.linear(x, embedding.weight)
        return F.cross_entropy(logits.float().view(-1, vocab), tokens[:, 1:].reshape(-1))

    if device == "cuda":
        loss_of = torch.compile(loss_of)
    warm_up = 2 if device == "cpu" else 5
    seconds = []
    for _ in range(steps + warm_up):
        tokens = torch.randint(0, vocab, (batch, context + 1))
        synchronize(device)
        start = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bf16"):
            loss = loss_of(tokens)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    return seconds[warm_up:]


def torch_attention(row, device):
    """Seconds that PyTorch takes for the attention of a row of `oxrse bench kernels`; with its forward pass also where the row is the backward one."""
    import re
    import time

    import torch
    from torch.nn import functional as F

    n = {name: int(value) for name, value in re.findall(r"([A-Z])=(\d+)", row["shape"])}
    backward = row["kernel"].endswith(".backward")
    sizes = (n["B"], n["H"], n["T"], n["D"])
    q, k, v = (torch.randn(sizes, dtype=getattr(torch, TYPES[row["dtype"]]), device=device, requires_grad=backward) for _ in range(3))
    d_o = torch.randn(sizes, dtype=q.dtype, device=device)

    def once():
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if backward:
            torch.autograd.grad(o, (q, k, v), d_o)

    calls, seconds = 10, []
    for turn in range(12):
        synchronize(device)
        start = time.perf_counter()
        for _ in range(calls):
            once()
        synchronize(device)
        if turn >= 2:
            seconds.append((time.perf_counter() - start) / calls)
    return statistics.median(seconds)


def compare_attention(path, device):
    """A table of our attention rows beside PyTorch's times."""
    with open(path) as file:
        rows = [r for r in json.load(file)["rows"] if r["kernel"].startswith("attention") and r["t_us"]]
    forward = {(r["dtype"], r["shape"]): r["t_us"] for r in rows if r["kernel"] == "attention"}
    print(f"{'attention':<32} {'type':<5} {'pass':<9} {'oxrse us':>10} {'torch us':>10} {'ratio':>7}")
    for row in rows:
        backward = row["kernel"].endswith(".backward")
        ours = row["t_us"] + (forward[row["dtype"], row["shape"]] if backward else 0)
        theirs = torch_attention(row, device) * 1e6
        print(f"{row['shape']:<32} {row['dtype']:<5} {'both' if backward else 'forward':<9} {ours:>10.1f} {theirs:>10.1f} {theirs / ours:>6.2f}x",
              flush=True)


def run_torch(shape, a, dtype):
    command = [sys.executable, __file__, "--torch-only", shape, "--dtype", dtype, "--steps", str(a.steps), "--threads", str(a.threads),
               "--init", a.init, "--device", a.device]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def run_oxrse(shape, a, dtype):
    name, _, _, _, _, batch, context = SHAPES[shape]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "result.json")
        command = [a.oxrse, "bench", "train", "--model", name, "--batch", str(batch), "--context", str(context), "--dtype", dtype,
                   "--steps", str(a.steps), "--threads", str(a.threads), "--device", a.device, "--json", file]
        subprocess.run(command, check=True, capture_output=True)
        with open(file) as result:
            return json.load(result)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--oxrse", default=os.path.join(os.path.dirname(__file__), "..", "build", "oxrse"))
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--model", default="all", choices=[*SHAPES, "all"])
    p.add_argument("--dtype", default="all", choices=["bf16", "f32", "all"])
    p.add_argument("--init", default="small", choices=["default", "small"])
    p.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    p.add_argument("--attention", metavar="KERNELS.json")
    p.add_argument("--torch-only", choices=SHAPES, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch_only:
        print(json.dumps(torch_steps(a.torch_only, a.dtype, a.steps, a.threads, a.init, a.device)))
        return
    print(f"{'model':<6} {'type':<5} {'oxrse tok/s':>12} {'torch tok/s':>12} {'ratio':>7} {'efficiency':>11} {'products alone':>15}")
    for shape in ["124m", "12m"] if a.model == "all" else [a.model]:
        tokens = SHAPES[shape][5] * SHAPES[shape][6]
        for dtype in ["bf16", "f32"] if a.dtype == "all" else [a.dtype]:
            ours, theirs = [], []
            for turn in range(a.turns):
                if turn % 2 == 0:
                    ours.append(run_oxrse(shape, a, dtype)["summary"])
                theirs += run_torch(shape, a, dtype)
                if turn % 2 == 1:
                    ours.append(run_oxrse(shape, a, dtype)["summary"])
            mine = statistics.median(s["step_ms"] for s in ours) / 1e3
            peer = statistics.median(theirs)
            efficiency = statistics.median(s["efficiency"] for s in ours)
            products = statistics.median(s["products_ms"] for s in ours)
            print(f"{shape:<6} {dtype:<5} {tokens / mine:>12.0f} {tokens / peer:>12.0f} {peer / mine:>6.2f}x {100 * efficiency:>10.0f}% "
                  f"{products:>12.1f} ms", flush=True)
    if a.attention:
        compare_attention(a.attention, a.device)


if __name__ == "__main__":
    main()
