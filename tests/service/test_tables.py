"""The tables are those that the migrations make, and writers wait for each other."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from evenhand.errors import ConfigError
from evenhand.service.tables import META, TEAM, Database


def test_migrations_make_the_tables(database: Database) -> None:
    with database.read() as c:
        assert compare_metadata(MigrationContext.configure(c, opts={"compare_type": True}), META) == []


def test_migrations_run_once(database: Database) -> None:
    with database.write() as c:
        c.execute(TEAM.insert().values(name="credit"))
    database.migrate()
    with database.read() as c:
        assert c.execute(sa.select(TEAM.c.name)).scalars().all() == ["credit"]


def test_several_writers_and_readers(url: str) -> None:
    """As many as a service has; none of them sees a locked database."""
    faults: list[BaseException] = []
    databases = [Database.open(url) for _ in range(3)]

    def write(number: int) -> None:
        try:
            for one in range(40):
                with databases[number].write() as c:
                    known = c.execute(sa.select(sa.func.count()).select_from(TEAM)).scalar_one()
                    c.execute(TEAM.insert().values(name=f"{number} {one} {known}"))
        except BaseException as fault:
            faults.append(fault)

    def read(number: int) -> None:
        try:
            for _ in range(40):
                with databases[number % 3].read() as c:
                    c.execute(sa.select(TEAM.c.name)).scalars().all()
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    threads += [threading.Thread(target=read, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with databases[0].read() as c:
        assert c.execute(sa.select(sa.func.count()).select_from(TEAM)).scalar_one() == 120
    for database in databases:
        database.close()
    assert faults == []


@pytest.mark.parametrize("url", ["mysql://localhost/x", "nonsense", "postgresql://127.0.0.1:1/x"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Database.open(url)
    assert raised.value.remedy
