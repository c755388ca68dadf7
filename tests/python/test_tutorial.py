"""The code of docs/moe_layer.md runs and prints what the page says."""

import contextlib
import io
import pathlib
import re

PAGE = (pathlib.Path(__file__).parents[2] / "docs/moe_layer.md").read_text()


def test_the_page_is_right():
    code = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    outside = re.sub(r"```.*?```", "", PAGE, flags=re.S)
    shown = re.findall(r"^    (\S.*)$", outside, re.M)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(code), {})  # noqa: S102
    assert len(code) == 5 and len(shown) == 10
    assert printed.getvalue().splitlines() == shown
