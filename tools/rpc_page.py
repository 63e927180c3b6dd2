"""Write the table of ops in docs/rpc.md from the table in the code. `tests/test_rpc_page.py` holds it."""

from __future__ import annotations

from pathlib import Path

from fairlead.wire.rpc_catalog import OPS, Op

PAGE = Path(__file__).parent.parent / "docs" / "rpc.md"
BEGIN, END = "<!-- ops: made by tools/rpc_page.py -->\n", "<!-- end of ops -->\n"


def _row(name: str, op: Op) -> str:
    takes = [*op.required, *(f"{each}?" for each in op.optional)]
    given = f" {{{' '.join(f':{each}' for each in takes)}}}" if takes else ""
    does = op.does + ("; runs beside others" if op.beside else "")
    return f"| `{name}{given}` | {does} | {' '.join(f'`:{key}`' for key in op.answer)} |\n"


def with_table(page: str) -> str:
    """The page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = "".join(_row(name, op) for name, op in OPS.items())
    return f"{before}{BEGIN}| op | what it does | answer |\n|---|---|---|\n{rows}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
