"""Is a published table possible under the definitions of the metrics?

    python -m cctv.audit TABLE.csv [TABLE.csv ...]

A table has a column model (size and method too, if any) and columns named like metrics.json's keys,
in percent. Rows of equal model, size and method are taken jointly over all tables. For each row a
linear program looks for any mixture of answers to a question pair (yes, no or neither in each of
the four cells) that gives every printed value up to 0.04 percentage points; BaAcc with MCCScore
goes by a scan over TPR. Other metrics that are ratios are not checked, which is said.

Prints every impossible row with the bound that it breaks and by how much. Exit status: 0 when every
row is possible, 1 when some row is not, 2 for bad input.
"""

from cctv import cli
from cctv.data.errors import UserError
from cctv.metrics import audit


def main(argv: list[str]) -> int:
    if not argv:
        raise UserError("expected one or more CSV tables (--help)")
    try:
        rows, unchecked = audit.read(argv)
    except ValueError as error:
        raise UserError(error) from None
    if unchecked:
        print(f"not checked: {', '.join(unchecked)}")
    verdicts = [audit.audit(row) for row in rows]
    impossible = [verdict for verdict in verdicts if verdict.why]
    for verdict in impossible:
        print(f"impossible: {verdict.row.name}: {verdict.why}")
    print(f"{len(impossible)} of {len(rows)} rows are impossible")
    return 1 if impossible else 0


if __name__ == "__main__":
    cli.run(main, usage=__doc__)
