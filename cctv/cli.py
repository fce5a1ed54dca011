"""How every command ends: help on --help, one line on wrong use or input, never a trace."""

import sys
from collections.abc import Callable, Sequence

from absl import flags, logging

from cctv.data.errors import UserError


def run(main: Callable[[list[str]], int | None], *, usage: str) -> None:
    """Parses flags, calls `main(positional arguments)` and exits with the status it returns.

    `usage` is what --help prints above the flags (a command passes its `__doc__`). Exit status:
    what `main` returns (None is 0), 1 for a failure at work (a missing file, a full disk), 2 for
    wrong use or input, 130 after Ctrl-C. Everything a user can cause is one line on stderr.
    """
    logging.use_absl_handler()
    try:
        if any(a in ("--help", "-help", "-h") for a in sys.argv[1:]):
            print(f"{usage.strip()}\n\nFlags:{flags.FLAGS.module_help(sys.modules['__main__'])}")
            sys.exit(0)
        sys.exit(main(flags.FLAGS(sys.argv)[1:]) or 0)
    except KeyboardInterrupt:
        say("interrupted; what was done is on disk, and the same command goes on from there")
        sys.exit(130)
    except (flags.Error, UserError) as error:
        say(error)
        sys.exit(2)
    except (OSError, ValueError) as error:
        say(error)
        sys.exit(1)


def no_more(argv: Sequence[str]) -> None:
    """UserError when a command that takes flags only was given something else."""
    if argv:
        raise UserError(f"unexpected argument {argv[0]!r}: this command takes flags only (--help)")


def say(text: object) -> None:
    """One line on standard error."""
    print("cctv: " + " ".join(str(text).split()), file=sys.stderr)
