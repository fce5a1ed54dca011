"""The error that a command shows to its user as one line."""


class UserError(ValueError):
    """Wrong use or input. Its text is one line that names the file or value and the fix."""
