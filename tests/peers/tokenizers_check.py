#!/usr/bin/python3
"""Tokenizers that Oxrse trained, in Hugging Face's `tokenizers` (pip install tokenizers): the same tokens for any text. Not part of the tests
that CI runs.

A BPE is trained on a text; random documents (words of the text, pieces that tokenizers stumble over, and any code points that both know) go
through `oxrse data prepare` and through `tokenizers`, and must give the same tokens. Then the same with GPT-2's pattern.

usage: tests/peers/tokenizers_check.py TEXT [--oxrse build/oxrse] [--documents 20000] [--seed 1]      (needs h5py: Debian python3-h5py)
"""
import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PIECES = ["a", "Z", "the", " ", "  ", "\n", "\r\n", "\r", "\t", "\v", "\u0085", "\u00a0", "\u2003", "\u2028", "\u3000", "'s", "'S", "'LL", "'ſ",
          "don't", "0", "12345", "½", "Ⅷ", "٣", "--", "...", "<|endoftext|>", "ü", "u\u0308", "ſ", "\u180e", "\u200d", "中文", "한국어", "😀",
          "👨‍👩‍👧", "🇩🇪", "İ", "ß", "ǅ", "_", "a" * 300, " " * 40, "\n" * 5, "\0", "\ufeff", "\U0010ffff", "\ue000"]


def document(rng, words, known):
    out = []
    for _ in range(rng.randrange(1, 40)):
        kind = rng.randrange(4)
        if kind == 0:
            out.append(rng.choice(words))
        elif kind == 1:
            out.append(chr(rng.choice(known)))
        elif kind == 2:
            out.append("".join(chr(rng.choice(known[:2000])) for _ in range(rng.randrange(1, 8))))
        else:
            out.append(rng.choice(PIECES) * (rng.randrange(1, 6) if rng.randrange(8) == 0 else 1))
    return "".join(out)


def check(a, name, tokenizer_file, documents, folder):
    import h5py
    from tokenizers import Tokenizer

    source, shards = os.path.join(folder, name + ".jsonl"), os.path.join(folder, name)
    with open(source, "w", encoding="utf-8") as out:
        for text in documents:
            out.write(json.dumps({"text": text}) + "\n")
    subprocess.run([a.oxrse, "data", "prepare", source, "--tokenizer", tokenizer_file, "--out", shards], check=True, capture_output=True)
    mine = []
    for shard in sorted(glob.glob(os.path.join(shards, "shard_*.h5"))):
        with h5py.File(shard) as file:
            mine += file["tokens"][:].tolist()
    peer = Tokenizer.from_file(tokenizer_file)
    end = peer.token_to_id("<|endoftext|>")
    peer.encode_special_tokens = True  # written out in a text, they are ordinary text
    at, wrong = 0, []
    for text in documents:
        ids = peer.encode(text, add_special_tokens=False).ids + [end]
        if mine[at:at + len(ids)] != ids:
            wrong.append((text, mine[at:at + len(ids)], ids))
            at = mine.index(end, at) + 1
        else:
            at += len(ids)
    print(f"{name}: {len(documents)} documents, {len(mine)} tokens, {len(wrong)} documents differ")
    for text, m, q in wrong[:5]:
        print("  ", ascii(text), m, q, sep="\n    ")
    return not wrong and at == len(mine)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("--oxrse", default=os.path.join(os.path.dirname(__file__), "..", "..", "build", "oxrse"))
    p.add_argument("--documents", type=int, default=20000)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    rng = random.Random(a.seed)
    # Unicode versions differ between libraries in what is assigned since: only characters that have long been there.
    known = [c for c in range(1, 0x30000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs")]
    with open(a.text, encoding="utf-8") as file:
        words = file.read(5_000_000).split(" ")
    documents = [document(rng, words, known) for _ in range(a.documents)]
    documents = [d for d in documents if d]
    with tempfile.TemporaryDirectory() as folder:
        llama3 = os.path.join(folder, "llama3.json")
        subprocess.run([a.oxrse, "data", "tokenizer", a.text, "--vocab", "8192", "--out", llama3], check=True, capture_output=True)
        with open(llama3, encoding="utf-8") as file:
            other = json.load(file)
        replaced = 0
        for step in other["pre_tokenizer"].get("pretokenizers", []):
            if step["type"] == "Split":
                step["pattern"] = {"Regex": GPT2}
                replaced += 1
        if replaced != 1:
            sys.exit(f"{llama3}: found {replaced} split patterns, expected one")
        gpt2 = os.path.join(folder, "gpt2.json")
        with open(gpt2, "w", encoding="utf-8") as file:
            json.dump(other, file)
        good = [check(a, "llama3", llama3, documents, folder), check(a, "gpt2", gpt2, documents, folder)]
    sys.exit(0 if all(good) else "tokens differ")


if __name__ == "__main__":
    main()
