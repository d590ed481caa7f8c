"""Pages of the results in the book: each value has its unit, or is a bare count or name."""

import re

import pytest
import result_pages
import units

NAMES = sorted(path.stem for path in (result_pages.ROOT / "figures").glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_each_number_of_a_result_has_a_unit_or_is_named_as_bare(name):
    for key, value in result_pages.values_of(name).items():
        units.unit_of(name, key, value)  # raises where no pattern has the key


def test_a_number_that_nobody_named_is_an_error():
    with pytest.raises(ValueError, match=r"demo data\.parsecs has no unit"):
        units.unit_of("demo", "data.parsecs.0", 1.5)


@pytest.mark.parametrize(
    ("name", "key", "unit"),
    [
        ("demo", "data.evaluation.0.bits", "bits per character"),
        ("demo", "data.evaluation.0.microseconds_per_token", "microseconds"),
        ("demo", "data.systems.xl.longest_reach", "tokens"),
        ("demo", "settings.train.steps", ""),
        ("ptb", "data.preset.by_memory.0.perplexity", "perplexity per word"),
        ("copying", "data.rows.3.flowing.2_hop.mean", "share, 0 to 1"),
        ("scaling", "data.presets.enwik8-base.gigabytes.0.whole", "gigabytes"),
        ("training_parts", "data.rows.0.changes.no_memory.cost.mean", "bits per character"),
    ],
)
def test_units_of_some_values(name, key, unit):
    assert units.unit_of(name, key, result_pages.values_of(name)[key]) == unit


def test_each_pattern_is_that_of_some_number():
    used = {
        units.pattern_of(name, key)
        for name in NAMES
        for key, value in result_pages.values_of(name).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    assert used == dict(units.UNITS).keys()


def test_a_page_has_its_title_in_words_then_its_figure_then_its_data():
    body = result_pages.body_of("memory_and_positions", set())
    assert "<h1>Result: memory and positions</h1>" in body
    (figure,) = re.findall(r'<img src="../_images/memory_and_positions.svg" alt="Test bits per [^"]+">', body)
    assert body.index("</h1>") < body.index(figure) < body.index("<table")
    parts = dict.fromkeys(re.findall(r'<tr id="(\w+)', body))
    assert next(iter(parts)) == "data"
    assert {"settings", "fingerprint"} < parts.keys()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5.148297574516079, "5.1483"),
        (3e-05, "3e-05"),
        (1763456789.12, "1763456789"),
        (20260101, "20260101"),
        ("a b", "a b"),
        (None, "null"),
    ],
)
def test_a_number_has_six_digits_and_a_text_no_quotes(value, shown):
    assert result_pages._printed(value) == shown


@pytest.mark.parametrize(
    ("name", "without", "with_memory"),
    [("demo", "relative", "xl"), ("memory_and_positions", "xl", "xl_memory")],
)
def test_a_page_names_the_systems_of_its_keys_as_the_figures_do(name, without, with_memory):
    body = result_pages.body_of(name, set())
    assert f"<code>{without}</code> is “Transformer-XL, no memory” in the figures" in body
    assert f"<code>{with_memory}</code> is “Transformer-XL” in the figures" in body
    assert "In keys" not in result_pages.body_of("copying", set())


@pytest.mark.parametrize("name", NAMES)
def test_each_part_of_a_page_has_a_heading_that_a_link_above_the_table_leads_to(name):
    body = result_pages.body_of(name, set())
    headings = re.findall(r'<details class="values"(?: open)?><summary><h2 id="([^"]+)">', body)
    assert headings == re.findall(r'<a href="#(part-[^"]+)">', body)
    assert len(headings) == len(set(headings)) == body.count("<h2")
    assert headings[0].startswith("part-data")


@pytest.mark.parametrize("name", NAMES)
def test_a_long_part_of_a_page_is_closed_and_its_long_groups_are_closed_in_it(name):
    body = result_pages.body_of(name, set())
    inside, counts = [], []
    for mark in re.findall(
        r'<details class="values"(?: open)?>|</details>|<tr id=|<small>[\d,]+ value', body
    ):
        if mark == "</details>":
            is_open, count, said = inside.pop()
            assert (is_open, count) == (count <= result_pages.FOLDED, said)
            counts.append(count)
            if inside:
                inside[-1][1] += count
                assert not is_open
        elif mark == "<tr id=":
            inside[-1][1] += 1
        elif mark.startswith("<small>"):
            inside[-1][2] = int(re.sub(r"\D", "", mark))
        else:
            inside.append(["open" in mark, 0, None])
    assert not inside
    assert counts


def test_a_key_breaks_after_its_dots_and_not_before_a_number():
    body = result_pages.body_of("demo", set())
    assert '<th scope="row">data.<wbr>evaluation.0.<wbr>bits<td>' in body


def test_the_page_shows_the_unit_beside_the_value_and_in_a_links_title():
    body = result_pages.body_of("demo", set())
    assert '<th scope="col">key<th scope="col">value<th scope="col">unit' in body
    row = next(line for line in body.split("\n") if 'id="data.evaluation.0.bits"' in line)
    assert row.endswith("<td>bits per character")
    link = result_pages.as_links("[2.99](../figures/demo.json#data.evaluation.0.bits)", "")
    assert 'bits per character">2.99</a>' in link
