"""An extension of griffe for the API page that turns the `>>>` examples of docstrings into code blocks.

Without it, Markdown would read `>>>` as three nested quotations.
"""

import re

import griffe

#: A line that starts with `>>>`, and everything up to the next empty line.
EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Put every example of a docstring between fences, at the indentation of the example."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of an object once it has been read."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
