from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand.errors import DataError
from evenhand.regression_corpus import LARGEST, MOST, Corpus
from evenhand.runs.pair_sentences import select_pairs

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refusing(age: int) -> Any:
    def refuse(frame: Any) -> Any:
        return (frame["age"] < age) & (frame["sex"] == "F")

    return refuse


def people(*ages: int) -> list[dict[str, Any]]:
    return [{"age": age, "sex": "M"} for age in ages]


def test_cases_still_treated_differently_are_returned(tmp_path: Path) -> None:
    cases = Corpus(tmp_path / "new", "a test")
    assert cases.retry(refusing(10), SPACE) == []
    cases.save(people(3, 7, 20))
    assert [pair.individual["age"] for pair in cases.retry(refusing(10), SPACE)] == [3, 7]
    (pair, _) = cases.retry(refusing(10), SPACE)
    assert pair.sentence == "age 3, sex M: False. The same person with sex F: True."
    assert cases.retry(refusing(1), SPACE) == []


def test_the_latest_come_first_and_old_ones_go(tmp_path: Path) -> None:
    cases = Corpus(tmp_path, "a test")
    cases.save(people(*range(1, 21)))
    cases.save(people(5, *range(21, 41)))
    ages = [case["age"] for case in cases.load()]
    assert ages[:3] == [5, 21, 22]
    assert len(ages) == len(set(ages)) == MOST
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_people_outside_the_space_are_skipped(tmp_path: Path) -> None:
    cases = Corpus(tmp_path, "a test")
    cases.save([{"age": 3, "sex": "M"}, {"age": 99, "sex": "M"}, {"age": 3}, {"age": "x", "sex": "M"}])
    assert len(cases.retry(refusing(10), SPACE)) == 1
    other = eh.Space([eh.Integer("age", 20, 40), eh.Nominal("sex", ["F", "M"])], "sex", ["age > 30"])
    assert cases.retry(refusing(40), other) == []


CONFLICT = """\
{
 "format": 1,
<<<<<<< HEAD
 "cases": [{"age": 3, "sex": "M"}]
=======
 "cases": [{"age": 4, "sex": "M"}]
>>>>>>> other
}
"""


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": 9, "cases": []}', '{"format": 1, "cases": 3}', '{"format": 1, "cases": [3]}',
             "[" * 9999, CONFLICT, " " * (LARGEST + 1)],
)  # fmt: skip
def test_a_damaged_file_is_an_error_and_is_not_written_over(tmp_path: Path, text: str) -> None:
    cases = Corpus(tmp_path, "a test")
    cases.path.write_text(text)
    calls: list[Any] = [cases.load, lambda: cases.save(people(3)), lambda: cases.retry(refusing(10), SPACE)]
    for call in calls:
        with pytest.raises(DataError, match="cannot be read as findings .* resolve the conflict"):
            call()
    assert cases.path.read_text() == text


def test_names_do_not_clash_and_stay_in_the_folder(tmp_path: Path) -> None:
    names = ["a/b.py::t[x]", "a_b.py::t[x]", "../../../etc/passwd", "t" * 5000, "t[\ud800]", ""]
    paths = {Corpus(tmp_path, name).path for name in names}
    assert len(paths) == len(names)
    assert {path.parent for path in paths} == {tmp_path}
    for name in names:
        Corpus(tmp_path, name).save(people(1))


def test_texts_are_tried_again(tmp_path: Path) -> None:
    space, cases = eh.TextSpace("religion"), Corpus(tmp_path, "a test")
    run = eh.audit(lambda texts: ["Sikh" in text for text in texts], space, "text-random",
                   data=["A Sikh, a Jew \ud83d."])  # fmt: skip
    pairs = select_pairs(run, 10, show="real")
    cases.save([*(pair.kept for pair in pairs), {"text": "hello"}, {"text": 3}, {"age": 3, "sex": "M"}])
    assert len(pairs) == 1
    again = cases.retry(lambda texts: ["Sikh" in text for text in texts], space)
    assert [pair.sentence for pair in again] == [pair.sentence for pair in pairs]
    assert "\\ud83d" in again[0].sentence
    assert cases.retry(lambda texts: ["Jew" in text for text in texts], space, seed=3)
    assert cases.retry(lambda texts: [False for _ in texts], space) == []
    assert cases.retry(len, eh.TextSpace("age")) == []
    assert cases.retry(refusing(10), SPACE)
    scored = cases.retry(lambda texts: [0.9 if "Sikh" in text else 0.2 for text in texts], space, eh.Gap(0.5))
    assert scored[0].gap == pytest.approx(0.7)
