"""Run every benchmark, then write the page: ``python -m benchmarks``."""

from benchmarks import comparison, killing, memory, page, throughput


def main() -> None:
    for benchmark in (throughput, comparison, memory, killing):
        print(f"\n{benchmark.__name__}\n", flush=True)
        benchmark.main([])
    page.main([])


if __name__ == "__main__":
    main()
