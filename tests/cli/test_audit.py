from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import ModelError
from tests.cli.conftest import MODELS, Command
from tests.reports.page import Page


def test_summary_counts_and_pairs(audit: Command) -> None:
    done = audit("refuse")
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    # 26 ages by 31 hours by 3 kinds of work, of which the ages below 30 are findings.
    assert "findings 930" in text
    assert "not how common discrimination is" in text
    assert re.search(r"\d\. sex F: refused; sex M: granted age 2\d, hours \d+, work \w+", text)
    # The verdict comes before any count; four rows alone show little.
    exact = "38.5% of all valid individuals (all were tested)"
    assert text.startswith(f"Changing only sex changes this model's decision for {exact}")
    assert text.index("Changing") < text.index("search") < text.index("Next: ")
    assert done.stderr == ""


def test_json_is_the_run_with_pairs(audit: Command) -> None:
    done = audit("refuse", "--strategy", "themis", "--seed", 7, "--json")
    values = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (values["findings"], values["tests"], values["stop"]) == (930, 26 * 31 * 3, "exhausted")
    assert values["identity"]["seed"] == 7
    assert (values["exceeded"], values["outcome"], values["fail_above"]) == (False, None, None)
    assert len(values["pairs"]) == 3
    assert values["pairs"][0]["changes"].keys() == {"sex"}


@pytest.mark.parametrize(
    ("limit", "tests", "status", "words"),
    [
        ("60%", 1000, 0, ""),
        ("10%", 1000, 1, "more than 10%"),
        ("27%", 1000, 3, "too few tests to tell whether that is above 27%; about"),
    ],
)
def test_fail_above_decides_on_the_estimate(
    audit: Command, people: Path, limit: str, tests: int, status: int, words: str
) -> None:
    repeated(people, 500)
    done = audit("refuse", "--fail-above", limit, "--budget-tests", tests)
    assert done.exit_code == status
    assert words in " ".join(done.stderr.split())
    values = json.loads(audit("refuse", "--fail-above", limit, "--budget-tests", tests, "--json").stdout)
    assert values["outcome"] == {0: "pass", 1: "fail", 3: "too few tests to tell"}[status]
    assert values["exceeded"] is (status == 1)
    assert 0 < values["estimate"]["uniform"]["low"] <= 930 / 2418 <= values["estimate"]["uniform"]["high"]


def test_fail_on_finding(audit: Command) -> None:
    done = audit("refuse", "--fail-on-finding", "--budget-tests", 200)
    assert done.exit_code == 1
    assert "--fail-on-finding allows none" in done.stderr
    assert audit("fair", "--fail-on-finding").exit_code == 0
    # Both limits: the stricter one decides.
    assert audit("refuse", "--fail-on-finding", "--fail-above", "60%").exit_code == 1


@pytest.mark.parametrize("flags", [("--fail-above", 0), ("--fail-above", "1%", "--strategy", "kosei")])
def test_a_bare_number_and_a_search_without_an_estimate_are_refused(audit: Command, flags: tuple[object, ...]) -> None:
    done = audit("refuse", *flags)
    assert done.exit_code == 2
    assert "--fail-on-finding" in done.stderr


def test_quiet_prints_nothing(audit: Command) -> None:
    done = audit("refuse", "--quiet", "--fail-on-finding")
    assert (done.exit_code, done.output) == (1, "")


@pytest.mark.parametrize(
    ("option", "value", "key"),
    [("--budget-tests", 50, "tests"), ("--budget-rows", 60, "rows"), ("--budget-findings", 7, "findings")],
)
def test_budgets_are_kept(audit: Command, option: str, value: int, key: str) -> None:
    # Auto also asks for decisions, and a block that does not fit is not begun.
    values = json.loads(audit("refuse", option, value, "--strategy", "themis", "--json").stdout)
    assert values[key] == value
    assert values["stop"] == key


def test_gamma_compares_scores(audit: Command) -> None:
    assert json.loads(audit("score", "--gamma", 0.05, "--json").stdout)["success_rate"] == 1
    assert json.loads(audit("score", "--gamma", 0.2, "--json").stdout)["findings"] == 0


def test_threshold_decides(audit: Command) -> None:
    values = json.loads(audit("score", "--threshold", 0.3, "--strategy", "themis", "--json").stdout)
    # Women of 20 to 29 are lifted over 0.3 by their sex alone.
    assert values["findings"] == 10 * 31 * 3


def test_settings_are_typed(audit: Command) -> None:
    values = json.loads(
        audit("refuse", "--strategy", "kosei", "--set", "samples=5", "--set", "per_seed=none", "--json").stdout
    )
    assert values["identity"]["strategy"]["samples"] == 5
    assert values["identity"]["strategy"]["per_seed"] is None


def test_findings_and_page_are_written(audit: Command, tmp_path: Path) -> None:
    findings, page = tmp_path / "findings.csv", tmp_path / "page.html"
    done = audit("refuse", "--strategy", "themis", "--findings", findings, "--report", page)
    assert done.exit_code == 0, done.output
    frame = pd.read_csv(findings)
    assert len(frame) == 930
    assert set(frame["decision"]) == {"refused", "granted"}
    assert "refused" in page.read_text()


def test_a_missing_package_is_named_before_the_search(
    audit: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.runs.exports.find_spec", lambda name: None)
    done = audit("refuse", "--findings", tmp_path / "findings.parquet")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "pip install 'evenhand[parquet]'" in done.stderr


def test_findings_of_a_fair_model_have_only_a_header(audit: Command, tmp_path: Path) -> None:
    done = audit("fair", "--findings", tmp_path / "none.csv")
    assert "No discriminatory pairs were found" in done.stdout
    assert (tmp_path / "none.csv").read_text().startswith('"age","hours","work","sex","counterpart_sex"')


def test_hidden_examples_are_not_called_none(audit: Command) -> None:
    done = audit("refuse", "--show-examples", "none")
    assert "No discriminatory pairs" not in done.stdout
    assert "sex F: refused" not in done.stdout


def repeated(people: Path, times: int) -> None:
    """Repeat the rows of a file."""
    head, *rows = people.read_text().splitlines()
    people.write_text("\n".join([head, *(rows * times), ""]))


def test_the_verdict_of_an_audit_is_about_the_population_of_its_rows(audit: Command, people: Path) -> None:
    repeated(people, 20)
    done = " ".join(audit("refuse", "--fail-above", "90%").stdout.split())
    assert re.search(r"decision for about [\d.]+% of people \(95% CI", done)
    assert re.search(r"estimate, data [\d.]+% \([\d.]+% to [\d.]+%\), \d+ of \d+, which are all of the data", done)


def test_space_file_alone_needs_no_data(evenhand: Command, people: Path, tmp_path: Path) -> None:
    assert (
        evenhand("init", people, "--protected", "sex", "--target", "paid", "--output", tmp_path / "e.toml").exit_code
        == 0
    )
    done = evenhand("audit", "--model", f"{MODELS}:refuse", "--space", tmp_path / "e.space.toml", "--json")
    assert json.loads(done.stdout)["identity"]["data"] is None


def test_protected_over_a_space_file(evenhand: Command, people: Path, tmp_path: Path) -> None:
    evenhand("init", people, "--protected", "sex", "--target", "paid", "--output", tmp_path / "e.toml")
    space = ["--space", tmp_path / "e.space.toml", "--protected", "work", "--exclude", "hours"]
    values = json.loads(evenhand("audit", "--model", f"{MODELS}:refuse", *space, "--json").stdout)
    assert values["identity"]["space"]["protected"] == ["work"]
    assert [a["name"] for a in values["identity"]["space"]["attributes"]] == ["age", "work", "sex"]
    assert values["findings"] == 0


def test_sampled_counterparts_are_shown(evenhand: Command, tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text(
        'protected = ["age", "sex"]\nmax_family_size = 5\n'
        '[[attribute]]\nname = "age"\nkind = "integer"\nlow = 20\nhigh = 45\n'
        '[[attribute]]\nname = "sex"\nkind = "nominal"\nvalues = ["F", "M"]\n'
        '[[attribute]]\nname = "hours"\nkind = "integer"\nlow = 1\nhigh = 9\n'
    )
    done = evenhand("audit", "--model", f"{MODELS}:refuse", "--space", space)
    assert "a sample of 5 of 52 per individual" in " ".join(done.stdout.split())


def test_columns_that_the_model_does_not_receive_are_excluded(
    evenhand: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import joblib
    from sklearn.linear_model import LogisticRegression

    frame = pd.read_csv(people)
    joblib.dump(LogisticRegression().fit(frame[["age", "hours"]], frame["paid"]), tmp_path / "model.joblib")
    given = ["--data", people, "--target", "paid", "--protected", "sex", "--trust-pickle", "--json"]
    done = evenhand("audit", "--model", tmp_path / "model.joblib", *given)
    assert "runs the code in it" in done.stderr
    names = [a["name"] for a in json.loads(done.stdout)["identity"]["space"]["attributes"]]
    assert names == ["age", "hours", "sex"]


def test_a_run_in_a_directory_is_resumed(audit: Command, tmp_path: Path) -> None:
    kept = ["--directory", tmp_path / "run", "--json", "--strategy", "themis"]
    assert json.loads(audit("refuse", *kept, "--budget-tests", 100).stdout)["tests"] == 100
    values = json.loads(audit("refuse", *kept, "--budget-tests", 200, "--resume").stdout)
    assert values["tests"] == 200
    assert values["counts"]["rows_from_log"] == 200


def test_the_report_of_an_audit_follows_the_configuration(evenhand: Command, people: Path, tmp_path: Path) -> None:
    page, config = tmp_path / "page.html", tmp_path / "evenhand.toml"
    config.write_text(
        f"[model]\npath = '{MODELS}:refuse'\n[data]\npath = '{people.name}'\ntarget = 'paid'\n"
        "[space]\nprotected = ['sex']\n"
        "[audit]\nstrategy = 'themis'\n[estimate]\nconfidence = 0.9\n"
        "[report]\nshow_examples = 'none'\ntitle = 'Loans'\n"
    )
    done = evenhand("audit", config, "--report", page)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(f"Wrote {page}\n")
    read = Page(page.read_text("utf-8"))
    assert read.headings[0] == "Loans"
    text = read.text
    assert "Interval, 90% confidence" in text
    assert "Pairs are left out" in text
    assert "4 rows, from people.csv" in text
    for value in ("clerk", "nurse", "boss"):
        assert value not in text


def test_a_report_without_people(audit: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = audit("refuse", "--strategy", "themis", "--report", page, "--show-examples", "none", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["findings"] == 930
    assert "Pairs are left out" in page.read_text("utf-8")


def test_a_page_with_parts_that_failed(audit: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ModelError("the server is gone")

    monkeypatch.setattr("evenhand.reports.content.regions", broken)
    done = audit("refuse", "--strategy", "themis", "--report", tmp_path / "page.html", "--quiet")
    assert done.exit_code == 1, done.output
    assert done.stderr.endswith("1 part could not be made (Where it happens): the server is gone\n")


def test_the_author_of_an_audit_is_in_the_run(audit: Command, tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text('[about]\nauditor = "Model risk"\npurpose = "Review"\n')
    given = [tmp_path / "e.toml", "--purpose", "Another", "--directory", tmp_path / "r", "--json"]
    done = audit("refuse", *given, "--data-description", "all branches")
    about = json.loads(done.stdout)["about"]
    assert about == eh.Run.load(tmp_path / "r").about.to_dict()
    assert {key: about[key] for key in about if key != "started"} == {
        "auditor": "Model risk", "purpose": "Another", "data_description": "all branches",
    }  # fmt: skip
