"""Asks endpoints of Prometheus for their metrics, and stores each response in a file."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from odradek.pipelines.places import PipelineError

TIMEOUT_S = 10
SUFFIX = ".prom"


class Scraper:
    """Stores responses in a directory. The first line of each file has the time and the address."""

    def __init__(self, urls: list[str], directory: Path) -> None:
        self._urls = urls
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.failures: list[str] = []

    def check(self) -> None:
        """Ask each endpoint once.

        Raises:
            PipelineError: one does not answer.
        """
        for url in self._urls:
            try:
                _get(url)
            except (OSError, ValueError) as error:
                raise PipelineError(f"{url} cannot be scraped: {error}") from None

    def scrape(self) -> list[Path]:
        """Ask all endpoints, and return the new files. What fails is noted in `failures`."""
        made = []
        for number, url in enumerate(self._urls):
            at = time.time_ns() // 1_000_000
            try:
                body = _get(url)
            except (OSError, ValueError) as error:
                self.failures.append(f"{url}: {error}")
                continue
            path = self._directory / f"{at}-{number}{SUFFIX}"
            draft = path.with_suffix(".draft")
            head = f"# scraped at {at} ms from {urlsplit(url).netloc}\n"
            draft.write_bytes(head.encode() + body)
            draft.replace(path)
            made.append(path)
        return made

    def files(self) -> list[Path]:
        """Return all files, also those of earlier runs."""
        return sorted(self._directory.glob(f"*{SUFFIX}"))


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310  (http, checked)
        body: bytes = response.read()
    return body
