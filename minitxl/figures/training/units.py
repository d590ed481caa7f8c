"""One loss in several units: bits of each byte, and perplexities of a byte and of a longer unit."""

from minitxl.figures.picture import Data, Picture, drawing, fitted, panels, printed

GREY = "#707070"
"""Colour of bytes; longer units are black."""


def perplexity_units(data: Data) -> Picture:
    """Draw perplexity against bits per byte, for a byte and for a longer unit, and mark one loss on both."""
    bits, chosen, size = data["bits"], data["chosen"], data["unit_bytes"]
    lines = {"a byte": (data["byte"], GREY, "-"), f"a unit of {size:g} bytes": (data["unit"], "black", "--")}
    at = bits.index(chosen)
    with drawing(5.2, 3.2) as figure:
        (axes,) = panels(figure, 1, height=3.4)
        for name, (perplexity, colour, style) in lines.items():
            label = f"{name}: {_written(perplexity[at])} at the dot"
            axes.plot(bits, perplexity, style, color=colour, label=label)
            axes.plot([chosen], [perplexity[at]], "o", ms=8, color=colour)
        axes.set_yscale("log")
        axes.set_ylim(0.8, 40 * max(data["unit"][-1], 16))
        axes.set(xlabel="bits per byte", ylabel="perplexity", xlim=(bits[0], bits[-1]))
        axes.set_title(f"{chosen:g} bits per byte in two units")
        axes.legend(loc="upper left")
    values = ", ".join(f"{name} {_written(perplexity[at])}" for name, (perplexity, _, _) in lines.items())
    return Picture(figure, f"At {chosen:g} bits per byte the perplexity is: {values}.")


def _written(perplexity: float) -> str:
    return f"{perplexity:,.0f}" if perplexity >= 100 else f"{perplexity:.1f}"


def bits_of_bytes(data: Data) -> Picture:
    """Draw the bits of each byte of a text as a bar, and share their sum among bytes and words."""
    text, bits = data["text"], data["bits"]
    total, words = sum(bits), len(text.split())
    with drawing(7, 2.8) as figure:
        axes = figure.subplots()
        axes.bar(range(len(bits)), bits, color=GREY, width=0.8)
        for place, one in enumerate(text[:-1]):
            if one.isspace():
                axes.axvline(place + 0.5, color="#808080", lw=1, ls=":")
        axes.set_xticks(range(len(bits)), list(printed(text)), family="monospace")
        axes.set(ylabel="bits", xlabel="byte of the text; dotted: the end of a word")
        axes.set_title(
            fitted(
                f"{len(bits)} bytes take {total:.1f} bits: {total / len(bits):.2f} for a byte, "
                f"{total / words:.1f} for a word"
            )
        )
    each = ", ".join(f"{one!r} {value:.1f}" for one, value in zip(text, bits, strict=True))
    shared = f"{total / len(bits):.2f} for each of {len(bits)} bytes"
    shared += f", {total / words:.1f} for each of {words} words"
    return Picture(figure, f"Bits of each byte: {each}. In all {total:.1f}: {shared}.")
