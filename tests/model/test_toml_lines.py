"""Lines of keys, against documents that hypothesis writes."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from tabletopic_kernel.model.settings.toml_lines import toml_lines, toml_syntax_error

DOCUMENT = '''\
# [comment]
a = 1

[kafka]   # "x" = 1
"bootstrap.servers" = """
[not.a.table]
b = 2
"""
list = [
  1,  # one
  2,
]
after = 'x'
inline = { x = 1, y.z = 2 }
[topics."web.clicks"]
start = "latest"
[topics]
other.start = 1
[[many]]
q = 1
'''


def test_lines_of_every_form() -> None:
    """Comments, strings and arrays of several lines, tables, headers; an error is at the document's end."""
    lines = toml_lines(DOCUMENT)
    expected = {
        "a": 2, "kafka": 4, "kafka.bootstrap.servers": 5, "kafka.list": 9, "kafka.after": 13,
        "kafka.inline.x": 14, "kafka.inline.y.z": 14, "topics.web.clicks": 15, "topics.web.clicks.start": 16,
        "topics": 17, "topics.other.start": 18, "many": 19, "many.q": 20,
    }  # fmt: skip
    assert lines.items() >= expected.items()
    assert "b" not in lines
    assert "not" not in lines
    message = toml_syntax_error("f.toml", "Invalid value (at end of document)", "a = 1\nb =")
    assert message == "f.toml:2: not valid TOML: Invalid value at the end of the file"


keys = st.text("abc", min_size=1, max_size=4)


@given(
    st.dictionaries(
        keys, st.dictionaries(keys, st.sampled_from(["1", '"x"', "[\n1,\n2]", '"""\n\n"""'])), max_size=4
    ),
    st.lists(st.sampled_from(["", "# c", "# [x]"]), max_size=3),
)
def test_every_key_is_found_where_it_was_written(tables: dict[str, dict[str, str]], noise: list[str]) -> None:
    """The line of each key is the one it was written to."""
    written: dict[str, int] = {}
    text = ""
    for table, values in tables.items():
        text += "".join(f"{line}\n" for line in noise)
        written[table] = text.count("\n") + 1
        text += f"[{table}]\n"
        for key, value in values.items():
            written[f"{table}.{key}"] = text.count("\n") + 1
            text += f"{key} = {value}\n"
    tomllib.loads(text)
    assert toml_lines(text) == written
