"""Made-up people to fit models on."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import strategies as st

WORK = ["nurse", "smith", "clerk"]
COLUMNS = ["age", "work", "sex", "ratio"]


def people(n: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(1, 10, n),
            "work": rng.choice(WORK, n),
            "sex": rng.choice(["f", "m"], n),
            "ratio": rng.random(n).round(2),
        }
    )
    frame.loc[::7, "ratio"] = np.nan
    return frame


def approved(frame: pd.DataFrame) -> np.ndarray:
    """Decide by a rule that looks at every column."""
    points = frame["age"] + 3 * (frame["work"] == "nurse") + 2 * (frame["sex"] == "m") + frame["ratio"].fillna(0.5)
    return (points > 7).to_numpy()


def answers(frame: pd.DataFrame) -> np.ndarray:
    return np.where(approved(frame), "yes", "no")


def numbers(frame: pd.DataFrame) -> np.ndarray:
    """Code a frame as the array that a space would make of it."""
    coded = frame.assign(
        work=frame["work"].map({value: code for code, value in enumerate(WORK)}),
        sex=(frame["sex"] == "m").astype(int),
    )
    return np.ascontiguousarray(coded.to_numpy(dtype=np.float64))


def categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({"work": "category", "sex": "category"})


person = st.tuples(
    st.integers(-3, 12),
    st.sampled_from(WORK),
    st.sampled_from(["f", "m"]),
    st.one_of(st.none(), st.floats(-1, 2)),
)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Draw a frame with text, missing values and, at times, category columns."""
    rows = draw(st.lists(person, min_size=1, max_size=20))
    frame = pd.DataFrame(rows, columns=COLUMNS).astype({"ratio": float})
    return categories(frame) if draw(st.booleans()) else frame
