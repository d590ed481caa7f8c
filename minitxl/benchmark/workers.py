"""The processes that the benchmark talks to, one of ``peers`` each."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from os import environ
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from typing import IO, Any, cast

from minitxl.benchmark.peers import Job

WORKER = Path(__file__).with_name("peers.py")


class Worker:
    """A process that runs one system; an error of it, or its end, is told in a sentence."""

    def __init__(self, job: Job, process: Popen[bytes], words: IO[bytes]) -> None:
        self.job, self.process, self.words = job, process, words
        self.questions, self.answers = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
        self.say(asdict(job))

    def say(self, question: Mapping[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the answer, or its absence, says why
            self.questions.write(json.dumps(question).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """Return the answer to what was said longest ago; the first is to the job itself."""
        line = self.answers.readline()
        answer = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer:
            error = answer["error"].strip().partition("\n")[0]
            raise ValueError(f"{self.job.system} must finish its {self.job.work}, got {error}")
        return answer

    def ask(self, what: str) -> dict[str, Any]:
        self.say({"do": what})
        return self.hear()

    def _last_words(self) -> str:
        code = self.process.wait()
        self.words.seek(0)
        lines = self.words.read().decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "no word of why")
        return f"exit code {code} and {last}"


@contextmanager
def worker(job: Job, python: str) -> Iterator[Worker]:
    """Yield a worker whose job is sent and whose reply is not awaited; its process ends with the block."""
    threads = str(job.threads)
    settings = {**environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "KMP_BLOCKTIME": "10"}
    command = [python, "-P", str(WORKER)]  # -P: this package's files are no top-level modules
    with (
        TemporaryFile() as words,
        Popen(command, bufsize=0, stdin=PIPE, stdout=PIPE, stderr=words, env=settings) as process,
    ):
        try:
            yield Worker(job, process, words)
        finally:
            process.kill()


def step(worker: Worker, name: str) -> float:
    """Return seconds of one iteration, the mean of a turn."""
    answer = worker.ask("step")
    if not answer["finite"]:
        raise ValueError(f"{name} must return finite numbers, got others")
    return answer["seconds"]
