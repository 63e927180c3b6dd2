"""A daemon in places of its own, as for the other clients."""

from tests.client.conftest import hosting

__all__ = ["hosting"]
