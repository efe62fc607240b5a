"""A page of metrics is read within limits, and a bad line costs only itself."""

from hypothesis import given
from hypothesis import strategies as st

from oomctl.collectors.live.prometheus import page as module
from oomctl.collectors.live.prometheus.page import MAX_LINE_CHARS, parse


def test_a_bad_line_costs_only_itself() -> None:
    text = '# TYPE a gauge\na 1\na{x="y" 2\na{x="z"} 4\n<html>\n\x00\n# TYPE\n# TYPE b counter\nb_total 5\nc NaN\n'
    page = parse(text)
    assert [(sample.name, sample.value) for sample in page.samples] == [("a", 1), ("a", 4), ("b_total", 5)]
    assert page.skipped == {"not a sample": 4, "not a finite number": 1}


def test_numbers_of_digits_alone() -> None:
    page = parse(f"a {2**64}\nb {'9' * 400}\nc 7\n")
    assert [(sample.name, sample.value, type(sample.value)) for sample in page.samples] == [
        ("a", 2**64, float),
        ("c", 7, float),
    ]
    assert page.skipped == {"not a finite number": 1}


def test_html_is_no_page() -> None:
    page = parse("<!doctype html>\n<html><body>Not found</body></html>\n")
    assert not page.samples
    assert page.skipped


def test_a_line_without_an_end() -> None:
    page = parse('a{x="' + "y" * (2 * MAX_LINE_CHARS) + "\nb 2\n")
    assert [sample.name for sample in page.samples] == ["b"]
    assert page.skipped == {"longer than is read": 1}


def test_more_samples_than_are_read(monkeypatch: object) -> None:
    limit, module.MAX_SAMPLES = module.MAX_SAMPLES, 10
    try:
        page = parse("".join(f"a{n} {n}\n" for n in range(25)))
    finally:
        module.MAX_SAMPLES = limit
    assert len(page.samples) == 10
    assert page.skipped == {"more samples than are read": 15}


@given(st.text(alphabet='abc_:{}="\\,# \n01.eTYPHLN\x00é', max_size=200))
def test_nothing_raises(text: str) -> None:
    parse(text)


@given(st.text(alphabet='a{}="\\,# \n01', max_size=60), st.integers(0, 3))
def test_good_lines_are_found_among_any(noise: str, at: int) -> None:
    good = [f'good_{n}{{k="v"}} {n}' for n in range(3)]
    lines = good[:at] + noise.split("\n") + good[at:]
    found = {sample.name for sample in parse("\n".join(lines)).samples}
    assert {"good_0", "good_1", "good_2"} <= found


def test_long_lines_are_not_read_at_all() -> None:
    """The parser's time grows with the square of the quotes in a line."""
    line = 'vllm:x{a="' + '\\"' * MAX_LINE_CHARS + '"} 1'
    page = parse(f"{line}\nvllm:num_requests_running 3\n{line}\n")
    assert [sample.value for sample in page.samples] == [3]
    assert page.skipped == {"longer than is read": 2}
