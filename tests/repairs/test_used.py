from __future__ import annotations

import numpy as np
import pytest

import evenhand as eh
from evenhand.repairs.data import Used

from .people import SPACE


def test_keys_of_another_protected_attribute_are_those_of_the_space() -> None:
    used = Used(SPACE)
    people_ = SPACE.individuals([[1, 2, 0, 1], [3, 3, 1, 2]])
    used.add(people_[:1])
    other = eh.Space(SPACE.attributes, protected="work")
    assert used(other.individuals(people_.rows)).tolist() == [True, False]


@pytest.mark.parametrize("limit", [2, 64])
def test_nobody_of_whose_family_anybody_was_used_is_asked(limit: int) -> None:
    """Another attribute is protected: an individual is excluded by each counterpart that it would be compared with."""
    used = Used(SPACE)
    used.add(SPACE.individuals(SPACE.coding.rows(np.arange(0, SPACE.coding.total, 7))))
    other = eh.Space(SPACE.attributes, "age", max_family_size=limit)
    everyone = other.individuals(SPACE.coding.rows(np.arange(300)))
    families = other.families(everyone, 3).rows
    by_hand = [bool(used(SPACE.individuals(family)).any()) for family in families]
    assert used.barring(3)(everyone).tolist() == by_hand
    assert limit == 64 or len(set(by_hand)) == 2
