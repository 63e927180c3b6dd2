"""The page about rpc-edn has every op as the code has it."""

from __future__ import annotations

from tools.rpc_page import PAGE, with_table


def test_the_table_of_ops_is_that_of_the_code() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "run: python tools/rpc_page.py"
