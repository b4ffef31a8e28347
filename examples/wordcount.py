"""Count the words of text files: the first rank hands out the files, the others read them.

    aiompi-launch -n 4 examples/wordcount.py --top 20 *.txt

A rank that is free asks for the next file, so that large and small files may come in any order. With one rank only,
that rank reads everything itself. It prints the most frequent words: how often they occur, and in how many files.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from aiompi import MPI

ASK, GIVE = 1, 2
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")

# word -> (occurrences, number of files that have it)
Index = dict[str, tuple[int, int]]


def hand_out(comm: MPI.Intracomm, files: list[str]) -> None:
    """Give each rank that asks the next file, and None when there are no more."""
    status = MPI.Status()
    for answer in [*files, *[None] * (comm.size - 1)]:
        comm.recv(source=MPI.ANY_SOURCE, tag=ASK, status=status)
        comm.send(answer, dest=status.Get_source(), tag=GIVE)


def handed_out(comm: MPI.Intracomm) -> Iterator[str]:
    """Yield the files that the first rank gives to this one."""
    while (file := comm.sendrecv(None, dest=0, sendtag=ASK, source=0, recvtag=GIVE)) is not None:
        yield file


def count(files: Iterable[str]) -> Index:
    occurrences: Counter[str] = Counter()
    files_with: Counter[str] = Counter()
    for file in files:
        words: Counter[str] = Counter()
        with Path(file).open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words.update(WORD.findall(line.casefold()))
        occurrences.update(words)
        files_with.update(words.keys())
    return {word: (number, files_with[word]) for word, number in occurrences.items()}


def merge(a: Index, b: Index, _: Any) -> Index:
    """Merge two indexes: a user-defined operation. The third argument is for reductions of buffers."""
    merged = dict(a)
    for word, (occurrences, files) in b.items():
        others = merged.get(word, (0, 0))
        merged[word] = (others[0] + occurrences, others[1] + files)
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the words of text files.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="number of words to print")
    args = parser.parse_args()

    comm = MPI.COMM_WORLD
    part: Index = {}
    if comm.size == 1:
        part = count(args.files)
    elif comm.rank == 0:
        hand_out(comm, args.files)
    else:
        part = count(handed_out(comm))
    index = comm.reduce(part, op=MPI.Op.Create(merge, commute=True), root=0)
    if comm.rank == 0:
        print(f"{len(index)} different words in {len(args.files)} files")
        for word, (occurrences, files) in sorted(index.items(), key=lambda item: (-item[1][0], item[0]))[: args.top]:
            print(f"{occurrences:8} times in {files:4} files: {word}")


if __name__ == "__main__":
    main()
