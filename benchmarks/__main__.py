"""Run every benchmark, then write the page: ``python -m benchmarks``.

Those on comments need the folder that EVENHAND_TEXT_DATA names, and are left out without it.
"""

import os

from benchmarks import (
    adf,
    comparison,
    coverage,
    estimates,
    faults,
    hostile_files,
    memory,
    page,
    profanity,
    realism,
    regions,
    repairs,
    round_trip,
    scores_only,
    symbolic,
    text_nets,
    text_speed,
    texts,
    throughput,
    walking,
    wide,
)


def main() -> None:
    for benchmark in (
        throughput,
        comparison,
        adf,
        walking,
        scores_only,
        symbolic,
        coverage,
        estimates,
        repairs,
        profanity,
        regions,
        realism,
        wide,
        memory,
        faults,
        hostile_files,
        round_trip,
        text_speed,
        text_nets,
        texts,
    ):
        if benchmark in (text_nets, texts) and not os.environ.get("EVENHAND_TEXT_DATA"):
            print(f"\n{benchmark.__name__}: left out, EVENHAND_TEXT_DATA is not set", flush=True)
            continue
        print(f"\n{benchmark.__name__}\n", flush=True)
        benchmark.main([])
    page.main([])


if __name__ == "__main__":
    main()
