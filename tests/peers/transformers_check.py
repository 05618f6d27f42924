#!/usr/bin/python3
"""Exported models in Hugging Face's `transformers`, beside Oxrse (pip install torch transformers). Not part of the tests that CI runs.

For every family: a small model is trained for some steps and exported; `transformers` loads the directory, and the loss that it gives for
a text must be that of `oxrse eval`, the text that it continues greedily that of `oxrse generate`; what `transformers` saves again and Oxrse
imports must evaluate to the very same loss.

usage: tests/peers/transformers_check.py [--oxrse build/oxrse] [family...]
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

LLAMA = {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "mlp_width": 96, "bias": False, "kv_heads": 2, "tied_embeddings": False}
FAMILIES = {
    "gpt2": {"norm": "layernorm", "position": "learned", "mlp": "gelu", "bias": True},
    "llama": {**LLAMA, "head_width": 16},
    "mistral": {**LLAMA, "window": 7},
    "qwen2": {**LLAMA, "qkv_bias": True, "tied_embeddings": True},
    "qwen3": {**LLAMA, "qk_norm": True, "head_width": 24},
}
T = 32  # tokens of a sample


def text_of(seed, lines):
    words = "the quick brown foxes don't jump over 12 lazy dogs; Über, naïve café — ½ 😀 中文".split()
    state, out = seed, []
    for _ in range(lines):
        line = []
        for _ in range(9):
            state = (state * 1103515245 + 12345) % 2**31
            line.append(words[(state >> 8) % len(words)])
        out.append(" ".join(line))
    return "\n".join(out) + "\n"


def oxrse(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"oxrse {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout


def peer_loss(torch, model, ids):
    """Mean over the samples of T tokens that Oxrse makes of the same tokens."""
    total, count = 0.0, 0
    for begin in range(0, len(ids) - T, T):
        inputs = torch.tensor([ids[begin:begin + T]])
        targets = torch.tensor([ids[begin + 1:begin + T + 1]])
        with torch.no_grad():
            logits = model(inputs).logits.double()
        total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").item()
        count += T
    return total / count, count


def check(binary, family, folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    def path(name):
        return os.path.join(folder, f"{family}-{name}")

    for name, seed, lines in (("train.txt", 1, 600), ("eval.txt", 2, 60)):
        with open(path(name), "w", encoding="utf-8") as out:
            out.write(text_of(seed, lines))
    config = {
        "run": {"dir": path("run")},
        "model": {"layers": 2, "width": 64, "heads": 4, "context": T, "vocab": 0, **FAMILIES[family]},
        "data": {"train": path("train.txt"), "bpe_vocab": 320, "cache": path("cache")},
        "train": {"steps": 40, "global_batch": 8, "micro_batch": 8, "context": T},
        "precision": {"compute": "f32"},
        "optimizer": {"lr": 1e-2, "warmup_steps": 5},
    }
    with open(path("config.json"), "w") as out:
        json.dump(config, out)
    oxrse(binary, "train", path("config.json"))
    oxrse(binary, "checkpoint", "export", path("run"), "--out", path("hf"), "--family", family)

    model = AutoModelForCausalLM.from_pretrained(path("hf"), dtype=torch.float32)
    model.eval()
    # For qwen2, AutoTokenizer takes Qwen2's pattern whatever the files say (transformers 5); the tokenizer of the files is this class's.
    tokenizer = (PreTrainedTokenizerFast if family == "qwen2" else AutoTokenizer).from_pretrained(path("hf"))
    with open(path("eval.txt"), encoding="utf-8") as file:
        text = file.read()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.convert_tokens_to_ids("<|endoftext|>")]
    mine = json.loads(oxrse(binary, "eval", path("run"), "--data", path("eval.txt"), "--json"))
    theirs, count = peer_loss(torch, model, ids)
    prompt = "the quick brown"
    tokens = tokenizer(prompt, return_tensors="pt")["input_ids"]
    greedy = tokens
    with torch.no_grad():
        for _ in range(T - tokens.shape[1]):
            greedy = torch.cat([greedy, model(greedy).logits[:, -1:].argmax(-1)], 1)
    continued = tokenizer.decode(greedy[0], clean_up_tokenization_spaces=False)
    mine_continued = oxrse(binary, "generate", path("run"), "--prompt", prompt, "--temperature", "0", "--tokens",
                           str(T - tokens.shape[1]))[:-1]

    model.save_pretrained(path("again"))
    shutil.copy(os.path.join(path("hf"), "tokenizer.json"), path("again"))  # some classes of `transformers` add a normalizer to theirs
    oxrse(binary, "checkpoint", "import", path("again"), "--out", path("imported"))
    back = json.loads(oxrse(binary, "eval", path("imported"), "--data", path("eval.txt"), "--json"))

    results = {
        "architecture": type(model).__name__,
        "tokens": count == mine["tokens"],
        "loss": abs(theirs - mine["loss"]) <= 2e-6 * abs(mine["loss"]),
        "text": continued == mine_continued,
        "back": back["loss"] == mine["loss"],
    }
    print(f"{family:<8} {type(model).__name__:<20} oxrse {mine['loss']:.8f}  transformers {theirs:.8f}  back {back['loss']:.8f}  "
          f"{count} tokens, greedy text {'equal' if results['text'] else 'DIFFERS'}", flush=True)
    if not results["text"]:
        print(repr(mine_continued), repr(continued), sep="\n")
    return all(results.values())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--oxrse", default=os.path.join(os.path.dirname(__file__), "..", "..", "build", "oxrse"))
    p.add_argument("family", nargs="*")
    a = p.parse_args()
    binary = os.path.abspath(a.oxrse)
    with tempfile.TemporaryDirectory() as folder:
        good = [check(binary, family, folder) for family in a.family or FAMILIES]
    sys.exit(0 if all(good) else "a family does not agree")


if __name__ == "__main__":
    main()
