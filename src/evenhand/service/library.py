"""Projects and what is in them: files, models and spaces; checked in a child process before they are kept.

Every row belongs to a project, and a project to a team. What an account may not see does not exist for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import sqlalchemy as sa
from cryptography.fernet import Fernet, InvalidToken

from evenhand.datasets import load
from evenhand.datasets import names as dataset_names
from evenhand.errors import ConfigError, EvenhandError
from evenhand.models.files import SAFE
from evenhand.models.transport import check_url
from evenhand.service import jobs
from evenhand.service.process import ask
from evenhand.service.tables import ENTRY, EVENT, FILE, JOB, MODEL, PROJECT, SETTING, SPACE, Database

Kind = Literal["data", "texts", "model"]
ENDINGS: dict[str, tuple[str, ...]] = {
    "data": (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".csv.gz"),
    "texts": (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".txt"),
    "model": tuple(SAFE),
}
PIECE = 2**20
_DATASETS = {"german": "German credit", "adult": "Adult census", "bank": "Bank marketing", "comments": "Comments"}
_HEADER = re.compile(r"[A-Za-z0-9-]{1,60}")
Row: TypeAlias = sa.RowMapping


class Refused(EvenhandError):
    """Something that a user asked for and that is not possible; ``status`` is that of the HTTP answer."""

    def __init__(self, problem: str, status: int = 422, remedy: str = "") -> None:
        super().__init__(problem, remedy=remedy)
        self.status = status


def missing(what: str) -> Refused:
    """Return the error for what does not exist, or belongs to another team.

    >>> missing("project").status
    404
    """
    return Refused(f"there is no such {what}", 404)


@dataclass(frozen=True)
class Limits:
    """What a team may use.

    >>> Limits().open_jobs
    20
    """

    upload: int = 200 * 2**20
    """Bytes of one file."""
    stored: int = 5 * 2**30
    """Bytes of all files of a team."""
    open_jobs: int = 20
    """Jobs of a team that are queued or running."""
    memory: int = 4096
    """Megabytes of the processes of a job."""
    seconds: int = 6 * 3600
    """Seconds of one attempt of a job."""


class Vault:
    """Encrypts the secrets of endpoints, with a key that is not in the database.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vault = Vault(Path(folder))
    ...     vault.open(vault.close({"Authorization": "Bearer 1"}))
    {'Authorization': 'Bearer 1'}
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "secret.key"
        if not path.exists():
            # Of several processes that start together, the first makes the key.
            draft = folder / f".{os.urandom(8).hex()}.key"
            draft.touch(mode=0o600)
            draft.write_bytes(Fernet.generate_key())
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        self._fernet = Fernet(path.read_bytes())

    def close(self, secrets: Mapping[str, str]) -> str | None:
        """Encrypt some values."""
        return self._fernet.encrypt(json.dumps(dict(secrets)).encode()).decode() if secrets else None

    def open(self, closed: str | None) -> dict[str, str]:
        """Decrypt them."""
        if closed is None:
            return {}
        try:
            return dict(json.loads(self._fernet.decrypt(closed.encode())))
        except InvalidToken:
            raise ConfigError(
                "the key in secret.key is not the one that encrypted the headers of this model",
                remedy="restore secret.key, or add the model again",
            ) from None


class Library:
    """The files of the service in one directory, and their rows in the database."""

    def __init__(self, database: Database, folder: Path, limits: Limits | None = None) -> None:
        self.database, self.folder, self.limits = database, folder.resolve(), limits or Limits()
        self.files, self.jobs = self.folder / "files", self.folder / "jobs"
        for place in (self.folder, self.files, self.jobs):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.vault = Vault(self.folder)
        self._asking = threading.BoundedSemaphore(2)

    # Files and folders; all names are made here.

    def path(self, file: Row) -> Path:
        """Return where a file lies."""
        return self.files / f"{file['id']}{file['ending']}"

    def job_folder(self, id: str) -> Path:
        """Return the folder of a job, which is made if needed."""
        place = self.jobs / id
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def ask(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Have a child process do a short task; raise what it refuses."""
        with self._asking, tempfile.TemporaryDirectory(dir=self.folder, prefix="ask-") as folder:
            answer = ask(task, Path(folder))
        if "result" not in answer:
            raise Refused(self.without_paths(str(answer.get("error", "it failed"))))
        return dict(answer["result"])

    def without_paths(self, text: str) -> str:
        """Remove where files lie from a message."""
        return re.sub(rf"{re.escape(str(self.files))}/[0-9a-f]{{16}}[\w.]*", "the file", text)

    # Projects.

    def add_project(self, team: str, name: str) -> str:
        """Add a project."""
        if not (name := " ".join(name.split())):
            raise Refused("a project needs a name")
        with self.database.write() as c:
            values = {"team_id": team, "name": name[:80], "created": time.time()}
            return str(c.execute(PROJECT.insert().values(**values).returning(PROJECT.c.id)).scalar_one())

    def projects(self, team: str | None) -> list[Row]:
        """List the projects of a team, or of all."""
        chosen = sa.select(PROJECT).order_by(PROJECT.c.created.desc())
        with self.database.read() as c:
            return list(c.execute(chosen if team is None else chosen.where(PROJECT.c.team_id == team)).mappings())

    def remove_project(self, id: str) -> None:
        """Remove a project with its files and runs; jobs that run must be stopped first."""
        with self.database.write() as c:
            if c.execute(sa.select(JOB.c.id).where(JOB.c.project_id == id, JOB.c.state.in_(jobs.OPEN))).first():
                raise Refused("jobs of this project are still running", 409, "stop them first")
            files = c.execute(sa.select(FILE).where(FILE.c.project_id == id)).mappings().all()
            runs = c.execute(sa.select(JOB.c.id).where(JOB.c.project_id == id)).scalars().all()
            c.execute(PROJECT.delete().where(PROJECT.c.id == id))
        for file in files:
            self.path(file).unlink(missing_ok=True)
        for run in runs:
            shutil.rmtree(self.jobs / run, ignore_errors=True)

    def row(self, table: sa.Table, id: str, team: str | None) -> Row:
        """Return a row of a project, or of something in one; it must belong to the team."""
        of_project = table is PROJECT
        chosen = sa.select(table).where(table.c.id == id)
        if not of_project:
            chosen = chosen.join(PROJECT, PROJECT.c.id == table.c.project_id)
        if team is not None:
            chosen = chosen.where(PROJECT.c.team_id == team)
        with self.database.read() as c:
            found = c.execute(chosen).mappings().first()
        if found is None:
            raise missing(str(table.name))
        return found

    def rows(self, table: sa.Table, project: str, *where: Any) -> list[Row]:
        """List what is in a project, the newest first."""
        chosen = sa.select(table).where(table.c.project_id == project, *where).order_by(table.c.created.desc())
        with self.database.read() as c:
            return list(c.execute(chosen).mappings())

    # Uploads.

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Give a place for a file that is not checked yet."""
        handle, name = tempfile.mkstemp(dir=self.files, prefix="draft-")
        os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def add_file(self, project: Row, kind: Kind, name: str, stream: IO[bytes]) -> str:
        """Keep an uploaded file, after a child process has read it; a model also becomes one of the project."""
        name, ending = _shown(name), ending_of(name, kind)
        with self.draft() as draft:
            size, digest = self._receive(stream, draft)
            self._check_space(project["team_id"], size)
            values = {"project_id": project["id"], "kind": kind, "name": name, "ending": ending, "size": size}
            values |= {"sha256": digest, "created": time.time(), "facts": {}}
            with self.database.write() as c:
                file = c.execute(FILE.insert().values(**values).returning(FILE)).mappings().one()
            path = self.path(file)
            draft.rename(path)
            draft.touch()
        try:
            task = {"model": {"path": str(path)}} if kind == "model" else {"path": str(path)}
            facts = self.ask({"do": kind, **task})
        except BaseException:
            path.unlink(missing_ok=True)
            with self.database.write() as c:
                c.execute(FILE.delete().where(FILE.c.id == file["id"]))
            raise
        with self.database.write() as c:
            c.execute(FILE.update().where(FILE.c.id == file["id"]).values(facts=facts))
            if kind != "model":
                return str(file["id"])
            model = {"project_id": project["id"], "file_id": file["id"], "name": name, "settings": {}, "facts": facts}
            return str(
                c.execute(MODEL.insert().values(created=time.time(), **model).returning(MODEL.c.id)).scalar_one()
            )

    def _receive(self, stream: IO[bytes], path: Path) -> tuple[int, str]:
        size, digest = 0, hashlib.sha256()
        with path.open("wb") as out:
            while piece := stream.read(PIECE):
                size += len(piece)
                if size > self.limits.upload:
                    raise Refused(f"the file is larger than {self.limits.upload / 2**20:,.0f} MB", 413)
                digest.update(piece)
                out.write(piece)
        if not size:
            raise Refused("the file is empty")
        return size, digest.hexdigest()

    def _check_space(self, team: str, more: int) -> None:
        chosen = sa.select(sa.func.coalesce(sa.func.sum(FILE.c.size), 0)).join(PROJECT).where(PROJECT.c.team_id == team)
        with self.database.read() as c:
            used = int(c.execute(chosen).scalar_one())
        if used + more > self.limits.stored:
            raise Refused(
                f"the team's files would take more than {self.limits.stored / 2**30:,.1f} GB", 413, "remove a project"
            )

    def add_dataset(self, project: Row, name: str) -> str:
        """Add a data set of the package, as if it had been uploaded."""
        if name not in dataset_names():
            raise Refused(f"there is no data set {name!r}", remedy=f"choose one of {', '.join(dataset_names())}")
        with self.draft() as draft:
            table: Any = load(name)
            if name == "comments":
                import pandas as pd

                pd.DataFrame({"text": table.train.texts}).to_csv(draft, index=False)
            else:
                table.frame.to_csv(draft, index=False)
            with draft.open("rb") as stream:
                kind: Kind = "texts" if name == "comments" else "data"
                return self.add_file(project, kind, f"{_DATASETS[name]}.csv", stream)

    # Models behind URLs.

    def add_endpoint(self, project: Row, url: str, name: str, protocol: str | None, headers: Mapping[str, str]) -> str:
        """Add a model behind a URL; the values of its headers are encrypted."""
        try:
            check_url(url)
        except EvenhandError as error:
            raise Refused(str(error)) from None
        if len(url) > 2000 or len(headers) > 20:
            raise Refused("the URL is too long, or there are too many headers")
        if protocol not in (None, "", "oip", "mlflow", "instances"):
            raise Refused("there is no such protocol", remedy="choose oip, mlflow or instances")
        for header, value in headers.items():
            if not _HEADER.fullmatch(header) or not value or not (value.isascii() and value.isprintable()):
                raise Refused(f"the header {header[:60]!r} is not valid", remedy="use ASCII text on one line")
        values = {"project_id": project["id"], "name": _shown(name or url), "url": url}
        values |= {"settings": {"protocol": protocol or None, "headers": sorted(headers)}, "facts": {}}
        values |= {"secrets": self.vault.close(headers), "created": time.time()}
        with self.database.write() as c:
            return str(c.execute(MODEL.insert().values(**values).returning(MODEL.c.id)).scalar_one())

    def model_for(self, model: Row, threshold: float | None = None) -> dict[str, Any]:
        """Return what a child needs to load a model, with its secrets."""
        if model["file_id"] is not None:
            with self.database.read() as c:
                file = c.execute(sa.select(FILE).where(FILE.c.id == model["file_id"])).mappings().one()
            return {"path": str(self.path(file)), "threshold": threshold}
        settings = {"url": model["url"], "headers": self.vault.open(model["secrets"]), "threshold": threshold}
        return settings | {"protocol": model["settings"].get("protocol"), "allowed": self.allowed()}

    def allowed(self) -> list[str]:
        """List the networks besides the public ones where endpoints may be."""
        with self.database.read() as c:
            found = c.execute(sa.select(SETTING.c.value).where(SETTING.c.name == "allowed")).scalar()
        return list(found or [])

    def allow(self, networks: list[str]) -> None:
        """Set them."""
        from evenhand.models.transport import AddressGuard

        try:
            AddressGuard(networks)
        except EvenhandError as error:
            raise Refused(str(error)) from None
        with self.database.write() as c:
            c.execute(SETTING.delete().where(SETTING.c.name == "allowed"))
            c.execute(SETTING.insert().values(name="allowed", value=networks))

    # Spaces.

    def infer_space(
        self, project: Row, file: Row, protected: list[str], target: str | None, exclude: list[str], name: str = ""
    ) -> str:
        """Infer a space from data."""
        if file["kind"] != "data":
            raise Refused("a space is inferred from data rows, not from texts")
        if not protected:
            raise Refused("no attribute is protected", remedy="choose at least one")
        settings = {"protected": protected, "target": target or None, "exclude": exclude}
        facts = self.ask({"do": "infer", "path": str(self.path(file)), **settings})
        values = {"project_id": project["id"], "file_id": file["id"], "target": target or None, "created": time.time()}
        values |= {"name": _shown(name or f"{file['name']}: {', '.join(protected)}")}
        values |= {"text": facts.pop("text"), "facts": facts}
        with self.database.write() as c:
            return str(c.execute(SPACE.insert().values(**values).returning(SPACE.c.id)).scalar_one())

    def change_space(self, space: Row, change: Mapping[str, Any]) -> None:
        """Change a space: another text, or edits of its attributes. Runs that began keep theirs."""
        text = change.get("text") or space["text"]
        if len(text) > 2 * 2**20:
            raise Refused("the space is too long", 413)
        edits = {key: change[key] for key in ("edits", "constraints") if change.get(key) is not None}
        facts = self.ask({"do": "space", "text": text, **edits})
        with self.database.write() as c:
            c.execute(SPACE.update().where(SPACE.c.id == space["id"]).values(text=facts.pop("text"), facts=facts))

    def history(self, job: str) -> list[Row]:
        """List what happened to a job."""
        with self.database.read() as c:
            return list(c.execute(sa.select(EVENT).where(EVENT.c.job_id == job).order_by(EVENT.c.id)).mappings())

    # The audit log.

    def note(self, team: str | None, account: str, action: str, what: str) -> None:
        """Record who did what."""
        with self.database.write() as c:
            values = {"team_id": team, "account": account, "action": action, "object": what[:200]}
            c.execute(ENTRY.insert().values(at=time.time(), **values))

    def entries(self, team: str | None, before: int | None = None, n: int = 100) -> list[Row]:
        """List who did what, the latest first."""
        chosen = sa.select(ENTRY).order_by(ENTRY.c.id.desc()).limit(n)
        chosen = chosen if team is None else chosen.where(ENTRY.c.team_id == team)
        chosen = chosen if before is None else chosen.where(ENTRY.c.id < before)
        with self.database.read() as c:
            return list(c.execute(chosen).mappings())


def _shown(name: str) -> str:
    """Return a name that is only shown: printable, short, without folders.

    >>> _shown("../../etc/people.csv")
    'people.csv'
    """
    last = re.split(r"[/\\]", name)[-1] if not name.lower().startswith("http") else name
    return "".join(letter for letter in last if letter.isprintable())[:120].strip() or "unnamed"


def ending_of(name: str, kind: Kind) -> str:
    """Return the ending of a file's name, which selects its reader.

    >>> ending_of("People.CSV", "data")
    '.csv'
    """
    for ending in sorted(ENDINGS[kind], key=len, reverse=True):
        if name.lower().endswith(ending):
            return ending
    advice = "; pickles run code when they are loaded, so they are refused" if kind == "model" else ""
    raise Refused(
        f"{_shown(name)!r} is not a file that can be used as {'a model' if kind == 'model' else kind}{advice}",
        415,
        f"give one of {', '.join(ENDINGS[kind])}",
    )
