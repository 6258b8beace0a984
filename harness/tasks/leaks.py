"""Leaks across splits that equal contents do not show: near-duplicates (MinHash) and shared 13-grams.

13-grams as in Brown et al. 2020 (arXiv:2005.14165), MinHash with a Jaccard threshold as in Lee et al. 2022
(arXiv:2107.06499). Short questions (under 13 words) have neither: for them the canonical content decides.
"""

import hashlib
from collections.abc import Mapping, Sequence

from harness.tasks.api import Item
from harness.tasks.pool import normalised

N = 13
JACCARD = 0.8
PERMUTATIONS = 64
JUDGED = ("dev", "holdout", "test")


def ngrams(text: str, n: int = N) -> set[int]:
    """Return hashes of the runs of n words in a text."""
    words = normalised(text).split()
    runs = (" ".join(words[start : start + n]) for start in range(len(words) - n + 1))
    return {int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest()) for run in runs}


def question(item: Item) -> str:
    """Return what the user is asked."""
    return item.prompt[-1]["content"]


def find_leaks(splits: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    """Return how many items of dev, holdout and test resemble one of train.

    `ngram_overlap` counts items that share a 13-gram which fewer than 1 % of train's items have (a template's
    words are no leak), `near_duplicates` those above Jaccard 0.8 by runs of five words; 0 where datasketch is
    not installed is told by `near_duplicates_checked`.
    """
    train = splits.get("train", ())
    counts: dict[int, int] = {}
    for item in train:
        for gram in ngrams(question(item)):
            counts[gram] = counts.get(gram, 0) + 1
    rare = {gram for gram, count in counts.items() if count <= max(1, len(train) // 100)}
    judged = [item for name in JUDGED for item in splits.get(name, ())]
    shared = sum(bool(ngrams(question(item)) & rare) for item in judged)
    near, checked = _near_duplicates(train, judged)
    return {"ngram_overlap": shared, "near_duplicates": near, "near_duplicates_checked": checked}


def _near_duplicates(train: Sequence[Item], judged: Sequence[Item]) -> tuple[int, int]:
    long = [item for item in train if len(normalised(question(item)).split()) >= N]
    asked = [item for item in judged if len(normalised(question(item)).split()) >= N]
    if not long or not asked:
        return 0, 0
    try:
        from datasketch import MinHash, MinHashLSH
    except ImportError:
        return 0, 0

    def sketch(item: Item) -> MinHash:
        value = MinHash(num_perm=PERMUTATIONS)
        for gram in ngrams(question(item), 5):
            value.update(gram.to_bytes(8))
        return value

    index = MinHashLSH(threshold=JACCARD, num_perm=PERMUTATIONS)
    for item in {one.id: one for one in long}.values():
        index.insert(item.id, sketch(item))
    return sum(bool(index.query(sketch(item))) for item in asked), len(asked)
