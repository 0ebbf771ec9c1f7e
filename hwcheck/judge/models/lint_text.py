"""Whether a text says something, looks like a source, and what reading it quotes."""

from __future__ import annotations

import re

ADDRESS = re.compile(
    r"https?://|\b[\w-]+\.(com|org|net|io|city|cz)\b|\b[\w.-]{2,}/[\w.-]{2,}(#\d|, )"
    r"|\barXiv \d{4}\.\d{4,5}"
)
YEAR = re.compile(r"\b20[0-3]\d\b")
DOCUMENT = re.compile(
    r"datasheet|white ?paper|product brief|product page|technical brief|user guide|documentation"
    r"|README|nccl-tests|bandwidthTest|Maximum Achievable Matmul FLOPS|NVIDIA (HGX|DGX) \w+",
    re.IGNORECASE,
)
NAME = re.compile(r"\b[A-Z][\w'.-]*[a-zA-Z0-9]|\b[\w.-]+/[\w.-]+|\bnccl-tests")
READING = re.compile(r"(\d+(?:\.\d+)?) (?:(?:TFLOP|GB)/s )?of (\d+(?:\.\d+)?)(?![\d.]*\w)")
UNIT = re.compile(r"\b(TFLOP/s|GB/s|TB/s|links|W)\b")
LEAST_WORDS = 5


def has_word(text: str) -> bool:
    """Return whether a text has at least one word of letters."""
    return re.search(r"[A-Za-z]{3}", text) is not None


def is_source(text: str, confidence: str) -> bool:
    """Return whether a text can be the source of a figure of this confidence.

    What is published names who says it, and a document, an address or a year; the vendor is NVIDIA;
    what is measured says the reading and on what; what is derived says from what.
    """
    words = len(text.split())
    if confidence == "derived":
        return text.startswith("derived") and words >= LEAST_WORDS
    if confidence == "measured":
        return bool(READING.search(text) and UNIT.search(text)) and words >= LEAST_WORDS
    if confidence == "vendor" and "NVIDIA" not in text:
        return False
    dated = YEAR.search(text) or DOCUMENT.search(text)
    return bool(ADDRESS.search(text) or (dated and NAME.search(text) and words >= 2))


def quoted_share(text: str, peak: float) -> float | None:
    """Return the share that a text quotes of this peak (271.2 of 312), None where it quotes none.

    Of several the lowest counts. A source may round the peak.
    """
    shares = [
        float(reading) / float(of)
        for reading, of in READING.findall(text)
        if abs(float(of) - peak) < 0.01 * peak
    ]
    return min(shares, default=None)
