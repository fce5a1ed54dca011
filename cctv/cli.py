"""How every command ends: help on --help, one line on wrong use or input, never a trace."""

import io
import sys
from collections.abc import Callable, Sequence

from absl import flags, logging

from cctv.data.errors import UserError


def run(
    main: Callable[[list[str]], int | None], *, usage: str, argv: list[str] | None = None
) -> None:
    """Parses flags, calls `main(positional arguments)` and exits with the status it returns.

    `usage` is what --help prints above the flags (a command passes its `__doc__`); `argv` replaces
    sys.argv. Exit status:
    what `main` returns (None is 0), 1 for a failure at work (a missing file, a full disk), 2 for
    wrong use or input, 130 after Ctrl-C. Everything a user can cause is one line on stderr.
    """
    logging.use_absl_handler()
    for stream in (sys.stdout, sys.stderr):  # a terminal that lacks α shows "?" instead
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    argv = sys.argv if argv is None else argv
    try:
        if any(a in ("--help", "-help", "-h") for a in argv[1:]):
            print(f"{usage.strip()}\n\nFlags:{flags.FLAGS.module_help(sys.modules['__main__'])}")
            sys.exit(0)
        sys.exit(main(_parse(argv)) or 0)
    except KeyboardInterrupt:
        say("interrupted; what was done is on disk, and the same command goes on from there")
        sys.exit(130)
    except (flags.Error, UserError) as error:
        say(error)
        sys.exit(2)
    except (OSError, ValueError) as error:
        say(error)
        sys.exit(1)


def _parse(argv: list[str]) -> list[str]:
    """Parses flags; UserError for whatever a flag or a config file makes go wrong.

    A config is a Python file, and ml_collections lets most of what happens in it through.
    """
    try:
        return flags.FLAGS(argv)[1:]
    except (
        flags.Error, ValueError, TypeError, LookupError, AttributeError, ImportError, NameError,
        SyntaxError, ArithmeticError, RuntimeError, AssertionError,
    ) as error:  # fmt: skip
        # Its own errors carry a printed trace, whose last line says what is wrong.
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        if "Traceback" in text:
            text = text.strip().splitlines()[-1].partition(": ")[2]
        if isinstance(error, KeyError | AttributeError):
            words = text.replace("\\n", " ").replace("\\", "").replace("'", "").replace('"', "")
            text = f"no such config key: {words}"
        raise UserError(text or type(error).__name__) from None


def no_more(argv: Sequence[str]) -> None:
    """UserError when a command that takes flags only was given something else."""
    if argv:
        raise UserError(f"unexpected argument {argv[0]!r}: this command takes flags only (--help)")


def say(text: object) -> None:
    """One line on standard error."""
    print("cctv: " + " ".join(str(text).split()), file=sys.stderr)
