"""A configuration file that names a model on a server of the test."""

from __future__ import annotations

from pathlib import Path

from tests.agent.openai_server import OpenAiServer
from tests.hosting import Hosting


def configure(hosting: Hosting, text: str) -> Path:
    path = Path(hosting.environment["HOME"], ".config/fairlead/config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def lab(server: OpenAiServer, more: str = "") -> str:
    table = f'[providers.lab]\nbase_url = "{server.url}"\n{more}'
    return f'{table}\n[[models]]\nprovider = "lab"\nid = "test"\n[agent]\nmodel = "lab/test"\n'
