"""Audit a model behind HTTP that takes a known time for each request, and compare with what that time allows.

A server on this machine answers each request after a delay, however many there are. What it allows is measured by a
bare client, which sends the same request again and again on as many connections and ignores the answers, before and
after each audit. An audit reaches a share of that; the rest is what it costs to write requests, to read answers, to
judge them, and to wait for the slowest of several. A rate limit is checked against the times at which the server saw
requests.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import evenhand as eh
from benchmarks.machine import facts, parser, save

CASES = [(0.005, 1, 100), (0.005, 2, 100), (0.005, 4, 100), (0.05, 1, 100), (0.05, 8, 100)]
"""Seconds of a request, requests in flight, rows in a request."""
SECONDS, AUDITS = 5.0, 3
"""How long an audit could take at best, and how often it is repeated; the median counts."""
RATE = 50.0

SPACE = eh.Space(
    [eh.Integer("age", 18, 69), eh.Nominal("work", ["nurse", "smith", "clerk"]), eh.Nominal("sex", ["f", "m"]),
     eh.Integer("hours", 1, 40), eh.Integer("years", 0, 99), eh.Integer("debt", 0, 999)],
    protected="sex",
)  # fmt: skip


def decide(ages: Sequence[int], sexes: Sequence[str]) -> list[str]:
    return ["yes" if age > 30 + 5 * (sex == "m") else "no" for age, sex in zip(ages, sexes, strict=True)]


class Server:
    """Answers each request after a delay, and keeps the times at which requests came."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.times: list[float] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                came = time.monotonic()
                if head.startswith(b"GET /times"):
                    content = json.dumps(self.times).encode()
                else:
                    self.times.append(came)
                    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                    split = json.loads(await reader.readexactly(length))["dataframe_split"]
                    columns = dict(zip(split["columns"], zip(*split["data"], strict=True), strict=True))
                    content = json.dumps({"predictions": decide(columns["age"], columns["sex"])}).encode()
                    await asyncio.sleep(max(0.0, came + self.delay - time.monotonic()))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run(self) -> None:
        """Serve until the process ends; print the port."""
        server = await asyncio.start_server(self.talk, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


@contextmanager
def serving(delay: float) -> Iterator[str]:
    """Start a server in a process of its own; yield its URL."""
    command = [sys.executable, "-m", "benchmarks.endpoints", "--serve", str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/invocations"
        finally:
            process.kill()


async def bare(url: str, in_flight: int, batch_size: int, seconds: float = 3.0) -> float:
    """Return how many requests a second a client gets answered that does nothing else."""
    row = [30, "nurse", "f", 20, 50, 500]
    body = json.dumps({"dataframe_split": {"columns": list(SPACE.names), "data": [row] * batch_size}}).encode()
    message = b"POST /invocations HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    end = time.perf_counter() + seconds

    async def talk() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        count = 0
        while time.perf_counter() < end:
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"Content-Length:")[2]))
            count += 1
        writer.close()
        return count

    return sum(await asyncio.gather(*(talk() for _ in range(in_flight)))) / seconds


def measure(delay: float, in_flight: int, batch_size: int) -> dict[str, Any]:
    """Audit for about as many requests as fit into the time, several times; return the audit of the median share."""
    found = []
    settings = {"in_flight": in_flight, "batch_size": batch_size}
    with serving(delay) as url:
        audit(url, 50, **settings)  # imports what an audit needs
        before = asyncio.run(bare(url, in_flight, batch_size))
        for _ in range(AUDITS):
            start, cpu = time.perf_counter(), time.process_time()
            run = audit(url, int(SECONDS * in_flight / delay), **settings)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            after = asyncio.run(bare(url, in_flight, batch_size))
            sent, possible = run.counts["requests"], (before + after) / 2
            found.append(
                {"requests": sent, "rows": run.rows, "seconds": seconds, "cpu": cpu, "per_second": sent / seconds,
                 "possible": possible, "share": sent / seconds / possible}
            )  # fmt: skip
            before = after
    return {"delay": delay, **settings} | sorted(found, key=lambda one: one["share"])[AUDITS // 2]


def audit(url: str, requests: int, **settings: Any) -> eh.Run:
    """Audit for so many requests."""
    model = eh.Endpoint(url, retries=0, **settings)
    return eh.audit(model, SPACE, strategy="themis", budget=eh.Budget(requests=requests), confirm=0)


def measure_rate() -> dict[str, Any]:
    """Audit at a limited rate; count the requests that the server saw within any second."""
    import urllib.request

    with serving(0.01) as url:
        model = eh.Endpoint(url, in_flight=8, batch_size=20, rate=RATE)
        eh.audit(model, SPACE, strategy="themis", budget=eh.Budget(requests=int(5 * RATE)), confirm=0)
        with urllib.request.urlopen(url.replace("invocations", "times")) as page:
            times = sorted(json.load(page))
    within = max(sum(start <= one < start + 1 for one in times) for start in times)
    return {"rate": RATE, "requests": len(times), "most": within, "mean": (len(times) - 1) / (times[-1] - times[0])}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__, "endpoints.json")
    arguments.add_argument("--serve", type=float, help="only answer requests, each after so many seconds")
    options = arguments.parse_args(argv)
    if options.serve is not None:
        asyncio.run(Server(options.serve).run())
        return
    cases = []
    for case in CASES:
        cases.append(measure(*case))
        print(
            "{delay:.3f} s, {in_flight} in flight: {per_second:,.0f} requests/s of {possible:,.0f}: {share:.2f}".format(
                **cases[-1]
            )
        )
    slow = {one["in_flight"]: one["per_second"] for one in cases if one["delay"] == 0.05}
    rate = measure_rate()
    print(
        f"8 in flight at 50 ms: {slow[8] / slow[1]:.2f} times one; at a rate of {RATE:g}: {rate['most']} in any second"
    )
    save(options.out, {"machine": facts(), "cases": cases, "speedup": slow[8] / slow[1], "rate": rate})


if __name__ == "__main__":
    main()
