"""Run every benchmark, then write the page: ``python -m benchmarks``."""

from benchmarks import (
    adf,
    comparison,
    coverage,
    estimates,
    killing,
    memory,
    page,
    profanity,
    repairs,
    scores_only,
    symbolic,
    throughput,
    walking,
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
        memory,
        killing,
    ):
        print(f"\n{benchmark.__name__}\n", flush=True)
        benchmark.main([])
    page.main([])


if __name__ == "__main__":
    main()
