"""Run every benchmark, then write the pages: ``python -m benchmarks``.

Those on comments need the folder that EVENHAND_TEXT_DATA names, and those on the networks of ADF's authors the folder
that EVENHAND_PAPER_DATA names; they are left out without it.
"""

from benchmarks import (
    auto,
    coverage,
    endpoints,
    estimates,
    faults,
    growth,
    hostile_files,
    larger,
    memory,
    page,
    papers,
    profanity,
    proofs,
    realism,
    regions,
    round_trip,
    scores_only,
    text_speed,
    throughput,
    walking,
    wide,
    workers,
)


def main() -> None:
    for benchmark in (
        throughput,
        walking,
        scores_only,
        coverage,
        estimates,
        profanity,
        proofs,
        proofs,
        regions,
        realism,
        wide,
        workers,
        growth,
        larger,
        memory,
        faults,
        hostile_files,
        endpoints,
        round_trip,
        text_speed,
        auto,
        papers,
    ):
        print(f"\n{benchmark.__name__}\n", flush=True)
        benchmark.main([])
    page.main([])


if __name__ == "__main__":
    main()
