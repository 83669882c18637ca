"""Says what is asked and what comes back, and keeps count of what went otherwise than it should.

Prints plain text that is the same on every run; starts programs, and judges their answers by what the step expects of
them. Knows nothing of namespaces or of the proxy. Called by the steps.
"""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Sequence

TIMEOUT_SECONDS = 15
WIDTH = 100


class Stage:
    """The printed play; `whole` is what no line is folded within.

    Attributes:
        failures: What was expected and did not come; empty when the demo showed what it says.
    """

    def __init__(self, whole: Sequence[str] = ()) -> None:
        self.failures: list[str] = []
        self._whole = whole
        self._steps = 0
        self._left_out = 0

    def say(self, text: str) -> None:
        """A paragraph, wrapped."""
        print(textwrap.fill(textwrap.dedent(text).strip(), WIDTH), flush=True)

    def show(self, lines: Sequence[str], mark: str = "") -> None:
        """Lines as they are, set in."""
        for line in lines:
            print(f"    {mark}{line}".rstrip())

    def _fold(self, line: str) -> list[str]:
        """A line that is too long for a page as several, never within what a person would copy."""
        for phrase in self._whole:
            line = line.replace(phrase, phrase.replace(" ", "\0"))
        parts = textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        return [part.replace("\0", " ") for part in parts] or [""]

    def step(self, title: str) -> None:
        """The next step's heading."""
        self._steps += 1
        print(f"\n{self._steps}. {title}\n", flush=True)

    def leave_out(self, why: str) -> None:
        """This step is not played here."""
        self._left_out += 1
        self.show([f"Left out: {why}"])

    def run(
        self, prompt: str, shown: str, command: Sequence[str], environment: dict[str, str], code: int | None = 0
    ) -> str:
        """Run a command and show it as a person would have typed it, with what it said.

        Args:
            shown: The command's text after the prompt.
            code: The exit code it must have; None for any but 0.

        Returns:
            What it wrote, to both of its outputs.
        """
        print(f"    {prompt}$ {shown}", flush=True)
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        for line in done.stdout.rstrip("\n").split("\n"):
            self.show(self._fold(line), "| ")
        right = done.returncode == code if code is not None else done.returncode > 0
        wanted = "a code other than 0" if code is None else str(code)
        self.expect(right, f"{shown}: ended with {done.returncode}, and {wanted} was expected")
        return done.stdout

    def expect(self, right: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as "expect this"
        """Check one expectation of a step."""
        if not right:
            self.failures.append(otherwise)
            print(f"    NOT AS EXPECTED: {otherwise}", flush=True)

    def expect_all(self, text: str, *parts: str) -> None:
        """Check that an answer holds all of these."""
        for part in parts:
            self.expect(part in text, f"the answer does not say {part!r}")

    def end(self) -> int:
        """The last line, and the exit code."""
        if self.failures:
            print(f"\n{len(self.failures)} of what this demo shows went otherwise:")
            self.show(self.failures)
            return 1
        played = f"All {self._steps}" if not self._left_out else f"{self._steps - self._left_out} of {self._steps}"
        print(f"\n{played} steps went as expected.")
        return 0
