"""Accounts, sessions and API tokens: who asks, and what may they do."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa

from evenhand.service.library import Refused, Row, missing
from evenhand.service.tables import FAILURE, SESSION, TEAM, TOKEN, USER, Database

Role = Literal["viewer", "auditor", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "auditor", "admin")
"""From the least to the most: viewers read, auditors add and start, admins also manage accounts of all teams."""
SESSION_SECONDS = 12 * 3600.0
DAYS = 90
"""Days that a token is valid by default; at most four times as long."""
WINDOW = 15 * 60.0
PER_NAME, PER_ADDRESS = 5, 50
"""Failed logins within the window, after which more are refused."""
LEAST = 12
"""Characters of a password."""
LOCAL = "local"
"""The account and the team of a service without accounts."""


@dataclass(frozen=True)
class Caller:
    """Who asks: an account, and what it may do here, which a token can limit."""

    name: str
    team: str
    role: Role
    account: str | None = None
    form_token: str | None = None
    """What a form must contain, if the caller has a session; None for tokens."""

    @property
    def sees(self) -> str | None:
        """The team whose projects the caller sees; None for all."""
        return None if self.role == "admin" else self.team

    def may(self, role: Role) -> bool:
        """Whether the caller has a role, or a higher one.

        >>> Caller("ada", "1", "auditor").may("viewer"), Caller("ada", "1", "auditor").may("admin")
        (True, False)
        """
        return ROLES.index(self.role) >= ROLES.index(role)


@cache
def _hasher() -> Any:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _no_password() -> str:
    """Return the hash of a password that is not known, to spend the same time on names that do not exist."""
    return str(_hasher().hash(secrets.token_hex(16)))


def digest(secret: str) -> str:
    """Return how the database knows a secret with enough randomness of its own."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Accounts:
    """The accounts of the service."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def any(self) -> bool:
        """Whether there is an account; without one, everybody who can reach the service may use it."""
        with self.database.read() as c:
            return c.execute(sa.select(USER.c.id).limit(1)).first() is not None

    def team(self, name: str) -> str:
        """Return the id of a team, which is added if needed."""
        with self.database.write() as c:
            found = c.execute(sa.select(TEAM.c.id).where(TEAM.c.name == name)).scalar()
            return str(found or c.execute(TEAM.insert().values(name=name).returning(TEAM.c.id)).scalar_one())

    def add(self, name: str, password: str, role: str, team: str) -> str:
        """Add an account."""
        name, team = name.strip(), " ".join(team.split())
        if not 0 < len(name) <= 80 or not name.isprintable() or not 0 < len(team) <= 80:
            raise Refused("an account needs a name and a team, of at most 80 characters each")
        if role not in ROLES:
            raise Refused(f"there is no role {role!r}", remedy=f"choose one of {', '.join(ROLES)}")
        values = {"team_id": self.team(team), "name": name, "role": role, "password": self._hash(password)}
        try:
            with self.database.write() as c:
                return str(c.execute(USER.insert().values(created=time.time(), **values).returning(USER.c.id)).scalar())
        except sa.exc.IntegrityError:
            raise Refused(f"there is already an account {name!r}", 409) from None

    def _hash(self, password: str) -> str:
        if not LEAST <= len(password) <= 1000:
            raise Refused(f"a password needs at least {LEAST} characters")
        return str(_hasher().hash(password))

    def change(self, id: str, **change: Any) -> None:
        """Change the role, the password, or whether an account is active; its sessions and tokens then end."""
        values: dict[str, Any] = {key: change[key] for key in ("role", "active") if change.get(key) is not None}
        if values.get("role") not in (None, *ROLES):
            raise Refused(f"there is no role {values['role']!r}", remedy=f"choose one of {', '.join(ROLES)}")
        if change.get("password"):
            values["password"] = self._hash(change["password"])
        with self.database.write() as c:
            if c.execute(sa.select(USER.c.id).where(USER.c.id == id).with_for_update()).first() is None:
                raise missing("account")
            if values:
                c.execute(USER.update().where(USER.c.id == id).values(**values))
            admins = c.execute(sa.select(USER.c.id).where(USER.c.role == "admin", USER.c.active).limit(1)).first()
            if admins is None:
                raise Refused("the last active admin must stay one", 409)
            c.execute(SESSION.delete().where(SESSION.c.account_id == id))
            if values.get("active") is False or "password" in values:
                c.execute(TOKEN.delete().where(TOKEN.c.account_id == id))

    def everyone(self) -> list[Row]:
        """List all accounts, without their passwords."""
        columns = [USER.c[name] for name in ("id", "name", "role", "active", "created")]
        with self.database.read() as c:
            chosen = sa.select(*columns, TEAM.c.name.label("team")).join(TEAM).order_by(USER.c.name)
            return [*c.execute(chosen).mappings()]

    # Sessions.

    def login(self, name: str, password: str, address: str) -> str:
        """Begin a session; return its secret. A wrong name takes as long as a wrong password."""
        keys, now = [f"name {name[:80].lower()}", f"from {address[:80]}"], time.time()
        recent = sa.select(sa.func.count()).select_from(FAILURE).where(FAILURE.c.at > now - WINDOW)
        with self.database.read() as c:
            counts = [c.execute(recent.where(FAILURE.c.of == key)).scalar_one() for key in keys]
            user = c.execute(sa.select(USER).where(USER.c.name == name)).mappings().first()
        if counts[0] >= PER_NAME or counts[1] >= PER_ADDRESS:
            raise Refused("too many failed logins", 429, f"try again in {WINDOW / 60:.0f} minutes")
        right = self._verify(_no_password() if user is None else user["password"], password)
        if user is None or not right or not user["active"]:
            with self.database.write() as c:
                c.execute(FAILURE.delete().where(FAILURE.c.at <= now - WINDOW))
                c.execute(FAILURE.insert(), [{"of": key, "at": now} for key in keys])
            raise Refused("the name or the password is wrong", 401)
        secret = secrets.token_urlsafe(32)
        with self.database.write() as c:
            c.execute(FAILURE.delete().where(FAILURE.c.of == keys[0]))
            c.execute(SESSION.delete().where(SESSION.c.expires <= now))
            c.execute(SESSION.insert().values(
                digest=digest(secret), account_id=user["id"], form_token=secrets.token_urlsafe(32),
                expires=now + SESSION_SECONDS,
            ))  # fmt: skip
        return secret

    def _verify(self, known: str, password: str) -> bool:
        from argon2.exceptions import Argon2Error

        try:
            return bool(_hasher().verify(known, password[:1000]))
        except Argon2Error:
            return False

    def logout(self, secret: str) -> None:
        """End a session."""
        with self.database.write() as c:
            c.execute(SESSION.delete().where(SESSION.c.digest == digest(secret)))

    def of_session(self, secret: str) -> Caller | None:
        """Return who has a session."""
        chosen = sa.select(USER, SESSION.c.form_token).join(SESSION, SESSION.c.account_id == USER.c.id)
        chosen = chosen.where(SESSION.c.digest == digest(secret), SESSION.c.expires > time.time(), USER.c.active)
        with self.database.read() as c:
            found = c.execute(chosen).mappings().first()
        if found is None:
            return None
        return Caller(found["name"], found["team_id"], found["role"], found["id"], found["form_token"])

    # Tokens.

    def add_token(self, caller: Caller, name: str, scope: str, days: int = DAYS) -> tuple[str, str]:
        """Add a token for the API; return its id, and the secret, which is not kept."""
        if caller.account is None:
            raise Refused("tokens belong to accounts, and this service has none", 409)
        if scope not in ROLES or not caller.may(scope):
            raise Refused(f"a token of {caller.name!r} cannot have the scope {scope!r}", 403)
        if not 1 <= days <= 4 * DAYS:
            raise Refused(f"a token is valid for 1 to {4 * DAYS} days")
        secret, now = f"eh_{secrets.token_urlsafe(32)}", time.time()
        values: dict[str, Any] = {
            "account_id": caller.account,
            "name": name.strip()[:80] or "token",
            "digest": digest(secret),
        }
        values |= {"scope": scope, "created": now, "expires": now + days * 86400.0}
        with self.database.write() as c:
            return str(c.execute(TOKEN.insert().values(**values).returning(TOKEN.c.id)).scalar_one()), secret

    def tokens(self, caller: Caller) -> list[Row]:
        """List the caller's tokens, without their secrets."""
        columns = [TOKEN.c[name] for name in ("id", "name", "scope", "created", "expires")]
        with self.database.read() as c:
            return [*c.execute(sa.select(*columns).where(TOKEN.c.account_id == caller.account)).mappings()]

    def remove_token(self, caller: Caller, id: str) -> None:
        """Remove one of the caller's tokens."""
        with self.database.write() as c:
            if not c.execute(TOKEN.delete().where(TOKEN.c.id == id, TOKEN.c.account_id == caller.account)).rowcount:
                raise missing("token")

    def of_token(self, secret: str) -> Caller | None:
        """Return who has a token; its scope limits the role of the account."""
        chosen = sa.select(USER, TOKEN.c.scope).join(TOKEN, TOKEN.c.account_id == USER.c.id)
        chosen = chosen.where(TOKEN.c.digest == digest(secret), TOKEN.c.expires > time.time(), USER.c.active)
        with self.database.read() as c:
            found = c.execute(chosen).mappings().first()
        if found is None:
            return None
        role = min(found["role"], found["scope"], key=ROLES.index)
        return Caller(found["name"], found["team_id"], role, found["id"])


def same(given: str | None, known: str | None) -> bool:
    """Compare secrets in constant time.

    >>> same("a", "a"), same("", ""), same(None, "a")
    (True, False, False)
    """
    return bool(given and known) and hmac.compare_digest(str(given).encode(), str(known).encode())
