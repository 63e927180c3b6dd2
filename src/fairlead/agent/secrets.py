"""Keys and passwords: where they are, and how they are kept out of commands, results and journals.

A secret is known by its name: a variable such as OPENAI_API_KEY, a file such as `.env`. Commands run without
such variables; a policy asks about such files; and a `Redactor` takes the values out of text in case they
turn up all the same. None of this looks at what a text means: a secret that nobody told us of is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

MIN_SECRET = 8
"""How long a value must be to be taken out of text. Shorter ones are words that mean something else too."""
MIN_BEGUN = 4
"""How many characters of a secret at the end of unfinished text are held back."""
REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE)S?(?:_|\d|\Z)"
    r"|(?:\A|_)(?:PASS|PWD|PAT|AUTH|BEARER|JWT)(?:\d|\Z)"
)
_HARMLESS_NAMES = frozenset(
    {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "GPG_TTY", "XAUTHORITY", "KEY_TIMEOUT", "KEYTIMEOUT"}
)
_PROVIDER_NAMES = frozenset(
    {
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "ANTHROPIC_CUSTOM_HEADERS",
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
    }
)
"""Variables of model providers that are no business of commands, though their names do not say so."""
_URL_PASSWORD = re.compile(r"(?<=[A-Za-z0-9+.-])://[^/\s:@]*:([^/\s@]+)@")

FOR_COMMANDS: Mapping[str, str] = {
    "TERM": "xterm-256color",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",  # nobody is there to type a password
    "GIT_EDITOR": "true",  # nor to write a message: what git proposes is taken
}
"""What every command finds in its environment."""

SECRET_FILES = (
    ".env*",
    "*.env",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    ".my.cnf",
    ".s3cfg",
    ".boto",
    ".vault-token",
    "kubeconfig",
    "*.kubeconfig",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.pem",
    "*.key",
    "*.ppk",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.yaml",
    "credentials.yml",
    "credentials.csv",
    "credentials.xml",
    "secrets",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "service-account*.json",
)
"""Names of files that are likely to hold secrets, in small letters."""
_TEMPLATES = ("*.example", "*.sample", "*.template", "*.dist", "*.pub")
_TEMPLATE = re.compile("|".join(map(translate, _TEMPLATES)))
_SECRET_FILE = re.compile("|".join(map(translate, SECRET_FILES)))
_SECRET_DIRECTORIES = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})


def is_secret_name(variable: str) -> bool:
    """Whether a variable of this name is likely to hold a secret.

    >>> is_secret_name("GITHUB_TOKEN"), is_secret_name("SSH_AUTH_SOCK"), is_secret_name("KEYBOARD")
    (True, False, False)
    """
    name = variable.upper()
    return name not in _HARMLESS_NAMES and (name in _PROVIDER_NAMES or bool(_SECRET_NAME.search(name)))


def is_secret_file(path: PurePath) -> bool:
    """Whether a file is likely to hold secrets, by its name and the directories it is in."""
    parts = [part.casefold() for part in path.parts]
    if not _SECRET_DIRECTORIES.isdisjoint(parts):
        return True
    name = parts[-1] if parts else ""
    return _TEMPLATE.match(name) is None and _SECRET_FILE.match(name) is not None


def environment_for_commands(environ: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """An environment without secrets for commands of a model; `also` names more variables to leave out."""
    hidden = set(also)
    kept = {name: value for name, value in environ.items() if name not in hidden and not is_secret_name(name)}
    return {**kept, **FOR_COMMANDS}


def secret_values(environ: Mapping[str, str], also: Iterable[str] = ()) -> set[str]:
    """The secrets in an environment: of variables named so, and passwords within addresses."""
    named = set(also)
    found = {value for name, value in environ.items() if name in named or is_secret_name(name)}
    for value in environ.values():
        for password in _URL_PASSWORD.findall(value):
            found |= {password, unquote(password)}
    return found


class Redactor:
    """Takes known secrets out of text.

    >>> Redactor(["sk-12345678"]).text("the key is sk-12345678.")
    'the key is [redacted].'
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self.learn(values)

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"

    def learn(self, values: Iterable[str]) -> None:
        """Take these out as well from now on."""
        wanted = set(self._values)
        for value in values:
            # a key of several lines is also printed line by line
            wanted.update(piece for piece in (value.strip(), *map(str.strip, value.splitlines())))
        self._values = sorted((value for value in wanted if len(value) >= MIN_SECRET), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._values))) if self._values else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        if self._pattern is None or not any(value in text for value in self._values):
            return text  # which is much quicker to find out so
        return self._pattern.sub(REDACTED, text)

    def unfinished(self, text: str) -> str:
        """The same for text that goes on: the beginning of a secret at its end is held back, too."""
        text = self.text(text)
        for value in self._values:
            end = text[-(len(value) - 1) :]
            at = end.find(value[:MIN_BEGUN])
            while at >= 0:
                if value.startswith(end[at:]):
                    return text[: len(text) - len(end) + at]
                at = end.find(value[:MIN_BEGUN], at + 1)
        return text

    def value(self, value: Any) -> Any:
        """The same for whatever JSON can hold: every text in it is cleaned, keys as well."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.value(each) for each in value)
        return value
