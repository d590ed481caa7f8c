"""The glossary's terms: an anchor for each row, which the search lists by the term."""

from docutils import nodes
from sphinx.application import Sphinx

KIND = "glossary-term"
"""An own kind of object, for Sphinx's search leaves out the terms that Sphinx has a kind for."""


def note_terms(app: Sphinx, doctree: nodes.document) -> None:
    """Give each row of the glossary an anchor, and tell the search its term, in English and in Chinese."""
    if app.env.docname != "glossary":
        return
    for table in doctree.findall(nodes.table):
        table["classes"].append("terms")
        for body in table.findall(nodes.tbody):
            for row in body.findall(nodes.row):
                english, chinese = (cell.astext() for cell in list(row.findall(nodes.entry))[:2])
                anchor = f"term-{nodes.make_id(english)}"
                row["ids"].append(anchor)
                for term in (english, chinese):
                    app.env.domains.standard_domain.note_object(KIND, term, anchor)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_object_type(KIND, KIND, objname="glossary term")
    app.connect("doctree-read", note_terms)
