"""Verifiers by name, for tasks that bring data and no code. Strict: the answer, and nothing that hides it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from harness.tasks.api import Verdict

_NUMBER = r"[-+]?\$?[0-9][0-9,]*(?:\.[0-9]+)?"
_MARKED = re.compile(
    rf"(?:####|[Aa]nswer\s*(?:is|:|=))\s*({_NUMBER})(?![0-9])|\\boxed\{{\s*({_NUMBER})\s*\}}"
)
_BOXED = re.compile(r"\\boxed\s*\{")


@dataclass(frozen=True, slots=True)
class Verifier:
    """A named rule: `judge(completion, answer)`, a completion that deserves 1, and ones that deserve 0."""

    judge: Callable[[str, str], Verdict]
    gold: Callable[[str], str]
    bad: Callable[[str], list[str]]
    says: str


def number(text: str) -> Decimal | None:
    """The number that a text is, with thousands separators and a dollar sign allowed; else None."""
    text = text.strip()
    if not re.fullmatch(_NUMBER, text):
        return None
    try:
        return Decimal(text.replace(",", "").replace("$", ""))
    except InvalidOperation:
        return None


def _exact(completion: str, answer: str) -> Verdict:
    same = completion.strip() == answer.strip()
    return Verdict(float(same), "correct" if same else "another text")


def _text(completion: str, answer: str) -> Verdict:
    same = " ".join(completion.casefold().split()) == " ".join(answer.casefold().split())
    return Verdict(float(same), "correct" if same else "another text")


def _choice(completion: str, answer: str) -> Verdict:
    """One label and no other: a list of all labels is wrong."""
    found = re.fullmatch(r"\s*(?:[Aa]nswer\s*(?:is|:)\s*)?\(?([A-Za-z])\)?[.)]?\s*", completion)
    if found is None:
        return Verdict(0.0, "not one label")
    same = found[1].upper() == answer.strip().strip("()").upper()
    return Verdict(float(same), "correct" if same else "another label")


def _number_only(completion: str, answer: str) -> Verdict:
    want, got = number(answer), number(completion)
    if want is None:
        return Verdict(None, f"the answer {answer!r} is not a number")
    if got is None:
        return Verdict(0.0, "not a number")
    return Verdict(float(got == want), "correct" if got == want else "another number")


def _final_number(completion: str, answer: str) -> Verdict:
    """The number after `####`, after `answer is` or in a box; two different ones are wrong."""
    want = number(answer)
    if want is None:
        return Verdict(None, f"the answer {answer!r} is not a number")
    marked = {number(one or two) for one, two in _MARKED.findall(completion)}
    if not marked:
        return Verdict(0.0, "no marked answer")
    if len(marked) > 1:
        return Verdict(0.0, "several answers")
    same = marked == {want}
    return Verdict(float(same), "correct" if same else "another number")


def boxed(text: str) -> list[str]:
    """The contents of every box, braces balanced."""
    found: list[str] = []
    for start in _BOXED.finditer(text):
        depth, begin = 1, start.end()
        for index in range(begin, len(text)):
            depth += {"{": 1, "}": -1}.get(text[index], 0)
            if depth == 0:
                found.append(text[begin:index])
                break
    return found


def _math(completion: str, answer: str) -> Verdict:
    """The one boxed expression, equal to the answer as text or, by math-verify, as mathematics."""
    answers = {"".join(one.split()) for one in boxed(completion)}
    if not answers:
        return Verdict(0.0, "no boxed answer")
    if len(answers) > 1:
        return Verdict(0.0, "several answers")
    got, want = answers.pop(), "".join(answer.split())
    if got == want:
        return Verdict(1.0, "correct")
    try:
        import math_verify
    except ImportError:
        return Verdict(None, "math-verify is not installed: pip install 'autotrainer[train]'")
    try:
        # No timeout of its own: it uses SIGALRM, of the main thread only; sizes are bounded instead.
        if len(got) > 200 or re.search(r"\^\{?\d{4,}|\d{4,}!", got):
            return Verdict(0.0, "too large an expression")
        left = math_verify.parse(f"${want}$", parsing_timeout=None)
        right = math_verify.parse(f"${got}$", parsing_timeout=None)
        same = bool(math_verify.verify(left, right, timeout_seconds=None))
    except Exception as error:  # noqa: BLE001 - the boundary to sympy, which raises anything on odd input
        return Verdict(0.0, f"cannot be parsed ({type(error).__name__})")
    return Verdict(float(same), "correct" if same else "another value")


def _near_numbers(answer: str) -> list[str]:
    value = number(answer)
    return [] if value is None else [str(value + 1), str(value - 1), f"{value + 1} or {value}"]


def _other_label(answer: str) -> list[str]:
    label = answer.strip().strip("()").upper()
    return [other for other in "ABCD" if other != label][:2]


VERIFIERS: dict[str, Verifier] = {
    "exact": Verifier(
        _exact, str, lambda a: ["", f"{a}.", f"{a} {a}", f"not {a}"], "the answer, character by character"
    ),
    "text": Verifier(
        _text, str, lambda a: ["", f"{a} or not", f"I think {a}"], "the answer, whatever its case and spacing"
    ),
    "choice": Verifier(
        _choice,
        str,
        lambda a: ["", "A B C D", "(A), (B), (C) or (D)", *_other_label(a)],
        "one label, as B, (B) or Answer: B",
    ),
    "number": Verifier(
        _number_only,
        str,
        lambda a: ["", f"{a} maybe", f"x={a}", *_near_numbers(a)],
        "a number and nothing else",
    ),
    "final_number": Verifier(
        _final_number,
        lambda a: f"#### {a}",
        lambda a: [
            "",
            a,
            f"#### {a} #### 987654321",
            "#### 987654321",
            *(f"#### {n}" for n in _near_numbers(a)[:2]),
        ],
        "the number after ####, `answer is` or in \\boxed{}",
    ),
    "math": Verifier(
        _math,
        lambda a: f"\\boxed{{{a}}}",
        lambda a: ["", a, f"\\boxed{{{a}}} or \\boxed{{987654321}}", "\\boxed{987654321}", "\\boxed{}"],
        "the expression in \\boxed{}, equal by math-verify",
    ),
}


def verifier(name: str) -> Verifier:
    """The verifier of that name.

    Raises:
        ValueError: there is none; the message lists the known ones.
    """
    if name not in VERIFIERS:
        raise ValueError(f"unknown verifier {name!r}; known: {', '.join(sorted(VERIFIERS))}")
    return VERIFIERS[name]
