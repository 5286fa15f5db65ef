"""Where searches of attributes start: K-means clusters of the data in turn, and rounds that grow."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import DATA, DataError, SpaceError
from evenhand.search import Problem, Query, work
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.tabular import Space

MOST, CELLS = 50_000, 20_000_000
"""The most rows, and numbers in all, that are clustered; of more rows, a seeded choice."""
WIDEST = 256
"""A nominal attribute with more values does not count in the distances."""
LARGEST = 2**20
"""The most individuals that one round draws."""


def cluster_seeds(
    problem: Problem, clusters: int, least: int | None = None, *, turns: bool = True
) -> Generator[Query, Any, Individuals]:
    """Return the different individuals of the data, from each cluster in turn, or cluster after cluster.

    Of very many rows a seeded choice. Without data, ``least`` individuals are drawn uniformly (None: as many as can be
    clustered). The run's seed decides which individual of a cluster comes first; individuals that differ only in
    protected attributes are one.
    """
    space = problem.space
    nominal = ~space.ordered & (space.sizes <= WIDEST)
    width = max(1, int(space.ordered.sum() + space.sizes[nominal].sum()))
    most = min(MOST, CELLS // width)
    least = most if least is None else least
    people = problem.sample(least) if problem.data is None else problem.data
    if not len(people):
        raise DataError(
            "there are no individuals to start from: the data have no rows, or none that the space allows",
            remedy=("give rows of the space, or leave out ", DATA, " to start from random individuals"),
        )
    people = people[problem.stream.shuffled(np.arange(len(people)), len(people), "seeds")]
    _, first = np.unique(people.keys, return_index=True)
    people = people[np.sort(first)[: max(least, most)]]
    state = int(problem.stream.bits("kmeans", 0, 0)[0] >> np.uint64(32))
    cluster = yield from work(lambda: kmeans(space, people.rows, clusters, state))
    return people[in_turn(cluster) if turns else np.argsort(cluster, kind="stable")]


def kmeans(space: Space, rows: Rows, clusters: int, state: int) -> npt.NDArray[np.int32]:
    """Cluster rows of codes; distances count the space's own steps, and two nominal values are one step apart."""
    from sklearn.cluster import KMeans

    nominal = np.flatnonzero(~space.ordered & (space.sizes <= WIDEST))
    ones = [np.sqrt(0.5) * (rows[:, [j]] == np.arange(space.sizes[j])) for j in nominal]
    features = np.hstack([rows[:, space.ordered].astype(np.float64), *ones])
    if not features.shape[1]:
        return np.zeros(len(rows), dtype=np.int32)
    with warnings.catch_warnings():
        # Fewer different rows than clusters give fewer clusters.
        warnings.simplefilter("ignore")
        model = KMeans(min(clusters, len(features)), n_init=1, random_state=state).fit(features)
    return np.asarray(model.labels_, dtype=np.int32)


def in_turn(cluster: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Order positions so that the clusters take turns.

    >>> in_turn(np.array([0, 0, 0, 1, 2, 2])).tolist()
    [0, 3, 4, 1, 5, 2]
    """
    order = np.argsort(cluster, kind="stable")
    start = np.searchsorted(cluster[order], cluster[order], side="left")
    turn = np.empty(len(cluster), dtype=np.int64)
    turn[order] = np.arange(len(cluster)) - start
    return np.lexsort((cluster, turn))


def random_seeds(problem: Problem, n: int) -> Individuals:
    """Return random individuals to continue with after the data; none where all were drawn, or none can be."""
    try:
        return problem.sample(n)
    except SpaceError:
        # The constraints are so tight that only rows of the data meet them.
        return problem.space.individuals(np.empty((0, len(problem.space.names)), dtype=np.int32))


def count_rounds(rounds: int | None) -> Iterator[int]:
    """Count the rounds of a search; None: without end.

    >>> list(count_rounds(3))
    [0, 1, 2]
    """
    return itertools.count() if rounds is None else iter(range(rounds))


def round_size(first: int, number: int) -> int:
    """Return how many individuals a round draws: twice as many as the one before.

    >>> [round_size(64, number) for number in range(4)]
    [64, 128, 256, 512]
    """
    return max(first, min(first << min(number, 62), LARGEST))
