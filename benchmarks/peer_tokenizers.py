#!/usr/bin/python3
"""BPE training and encoding side by side with Hugging Face's `tokenizers`, where it is installed (pip install tokenizers). Nothing else here
needs it.

Runs `oxrse bench data` and the same work in `tokenizers` in turns, so that both meet the machine in the same moods, and prints medians of wall
and processor time: on a busy machine the latter says more. Both train with Llama 3's pattern on the whole file; encoding is of one thread
and with the tokenizer that Oxrse trained, so that both do the same work; the tokens they make are counted.

usage: benchmarks/peer_tokenizers.py TEXT [--oxrse build/oxrse] [--vocab 32768] [--turns 3] [--encode-mb 20]
       benchmarks/peer_tokenizers.py TEXT --collect 100      write 100 MB of English text (documents, manuals and Python sources of this
                                                             Debian, each file once) to TEXT first
"""
import argparse
import glob
import gzip
import hashlib
import io
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WHERE = ["/usr/share/doc/**/*", "/usr/share/man/man?/*", "/usr/share/info/*", "/usr/share/perl/**/*.pod", "/usr/lib/python3*/**/*.py"]
PIECE = 100_000  # characters given to `tokenizers` at a time,
CUT = re.compile(r"[A-Za-z0-9](?=[ \n])")  # cut here, where that changes no token


def collect(path, megabytes):
    """Files of WHERE that are UTF-8 text, each content once, spread evenly over all there are, until there are enough bytes."""
    names = sorted({n for pattern in WHERE for n in glob.glob(pattern, recursive=True) if os.path.isfile(n)})
    names.sort(key=lambda n: hashlib.md5(n.encode()).digest())
    seen, left = set(), megabytes * 1_000_000
    with open(path, "wb") as out:
        for name in names:
            with gzip.open(name) if name.endswith(".gz") else open(name, "rb") as file:
                data = file.read()
            digest = hashlib.md5(data).digest()
            if digest in seen or b"\0" in data:
                continue
            seen.add(digest)
            try:
                data.decode()
            except UnicodeDecodeError:
                continue
            out.write(data[:left])
            left -= len(data)
            if left <= 0:
                return
    sys.exit(f"{path}: this machine has only {megabytes - left / 1e6:.0f} MB of such text")


def pieces_of(file):
    rest = ""
    while block := file.read(PIECE):
        rest += block
        cut = CUT.search(rest, len(rest) // 2)
        if cut:
            yield rest[:cut.end()]
            rest = rest[cut.end():]
    yield rest


def used():
    return time.perf_counter(), time.process_time()


def peer_train(text, vocab):
    """Runs in a process of its own: {train_s, train_cpu_s, peak_bytes}."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    wall, cpu = used()
    with open(text, encoding="utf-8", newline="") as file:
        tokenizer.train_from_iterator(pieces_of(file), trainer)
    end_wall, end_cpu = used()
    return {"train_s": end_wall - wall, "train_cpu_s": end_cpu - cpu, "tokens": tokenizer.get_vocab_size(),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def peer_encode(text, tokenizer_file, megabytes):
    """Runs in a process of its own, on one thread: {encode_s, encode_cpu_s, bytes, tokens}."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_file)
    with open(text, "rb") as file:
        data = file.read(megabytes * 1_000_000).decode(errors="ignore").replace("\r\n", "\n")  # as Oxrse reads text files
    pieces = list(pieces_of(io.StringIO(data, newline="")))
    tokenizer.encode_batch_fast(pieces[:4])
    wall, cpu = used()
    encoded = tokenizer.encode_batch_fast(pieces, add_special_tokens=False)
    end_wall, end_cpu = used()
    return {"encode_s": end_wall - wall, "encode_cpu_s": end_cpu - cpu, "bytes": len(data.encode()),
            "tokens": sum(len(e.ids) for e in encoded)}


def run_peer(*arguments, threads):
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true" if threads > 1 else "false")
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()[-1])


def run_oxrse(a, folder):
    result = os.path.join(folder, "result.json")
    command = [a.oxrse, "bench", "data", a.text, "--vocab", str(a.vocab), "--encode-mb", str(a.encode_mb), "--turns", "1", "--dir", folder,
               "--json", result]
    subprocess.run(command, check=True, capture_output=True)
    with open(result) as file:
        return json.load(file)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("--collect", type=int, metavar="MB")
    p.add_argument("--oxrse", default=os.path.join(os.path.dirname(__file__), "..", "build", "oxrse"))
    p.add_argument("--vocab", type=int, default=32768)
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--encode-mb", type=int, default=20)
    p.add_argument("--peer-train", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--peer-encode", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.collect:
        return collect(a.text, a.collect)
    if a.peer_train:
        return print(json.dumps(peer_train(a.text, a.vocab)))
    if a.peer_encode:
        return print(json.dumps(peer_encode(a.text, a.peer_encode, a.encode_mb)))
    ours, trained, encoded = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "tokenizer.json")
        subprocess.run([a.oxrse, "data", "tokenizer", a.text, "--vocab", str(a.vocab), "--out", file], check=True, capture_output=True)
        for _ in range(a.turns):
            ours.append(run_oxrse(a, folder))
            trained.append(run_peer(a.text, "--peer-train", "--vocab", a.vocab, threads=os.cpu_count()))
            encoded.append(run_peer(a.text, "--peer-encode", file, "--encode-mb", a.encode_mb, threads=1))
    print(f"{'':<28}{'oxrse':>12}{'tokenizers':>12}{'ratio':>8}   medians of {a.turns}")

    def row(what, mine, peer, better):
        m, q = statistics.median(mine), statistics.median(peer)
        print(f"{what:<28}{m:>12.2f}{q:>12.2f}{better(m, q):>7.1f}x")

    def faster(m, q):
        return q / m

    def higher(m, q):
        return m / q

    def mb_per_s(runs, key):
        return [r["encode_bytes" if "encode_bytes" in r else "bytes"] / r[key] / 1e6 for r in runs]

    row("training, wall s", [r["train_s"] for r in ours], [r["train_s"] for r in trained], faster)
    row("training, processor s", [r["train_cpu_s"] for r in ours], [r["train_cpu_s"] for r in trained], faster)
    row("training, peak GB", [r["train_peak_bytes"] / 1e9 for r in ours], [r["peak_bytes"] / 1e9 for r in trained], faster)
    row("encoding, MB/s", mb_per_s(ours, "encode_s"), mb_per_s(encoded, "encode_s"), higher)
    row("encoding, MB/processor s", mb_per_s(ours, "encode_cpu_s"), mb_per_s(encoded, "encode_cpu_s"), higher)
    row("bytes a token", [r["encode_bytes"] / r["encode_tokens"] for r in ours], [r["bytes"] / r["tokens"] for r in encoded], faster)


if __name__ == "__main__":
    main()
