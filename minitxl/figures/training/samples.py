"""Text that a model wrote, as a page."""

from textwrap import wrap

from minitxl.figures.picture import ORANGE, Data, Picture, drawing, panels
from minitxl.figures.systems import ink

WIDTH, LINES = 52, 20


def samples(data: Data) -> Picture:
    """Draw the first sample beside what the text really says there; the prompt's end above both."""
    first = data["samples"][0]
    with drawing(9.4, 3.8) as figure:
        for axes, (title, name) in zip(
            panels(figure, 2, height=4),
            (("The model goes on", "sample"), ("The text goes on", "original")),
            strict=True,
        ):
            prompt = _lines(first["prompt"])[-3:]
            written = _lines(first[name]["text"])[: LINES - len(prompt)]
            for lines, above, colour in ((prompt, 0, ORANGE), (written, len(prompt), "#000000")):
                axes.annotate(
                    "\n".join(lines),
                    (0, 1),
                    (0, -12.5 * above),
                    xycoords="axes fraction",
                    textcoords="offset points",
                    va="top",
                    color=ink(colour),
                    family="monospace",
                    fontsize=9.5,
                    linespacing=12.5 / 9.5 / 1.164,
                    parse_math=False,
                )
            share = f"{_share(first[name])} of its words stand in the training text"
            axes.set_title(f"{title} after the prompt (orange):\n{share}")
            axes.set_axis_off()
    return Picture(figure, _in_words(data))


def _lines(text: str) -> list[str]:
    """Return lines as wide as the page, of characters that can be printed."""
    text = "".join(one if one.isprintable() or one == "\n" else "�" for one in text)
    return [part for line in text.split("\n") for part in wrap(line, WIDTH, drop_whitespace=False) or [""]]


def _in_words(data: Data) -> str:
    alt = "; ".join(
        f"sample {number}: {_share(row['sample'])} (the text itself {_share(row['original'])})"
        for number, row in enumerate(data["samples"], start=1)
    )
    return (
        f"After a prompt of {data['prompt_len']} characters, {data['length']} more by the best of the models "
        f"({data['valid_bits']:.2f} bits per byte on the validation text), memory {data['mem_len']}, "
        f"temperature {data['temperature']}, top-p {data['top_p']}, seed {data['seed']}. "
        f"Words known from the training text: {alt}."
    )


def _share(described: Data) -> str:
    return (
        f"{100 * described['known_words'] / described['words']:.0f} %" if described["words"] else "no words"
    )
