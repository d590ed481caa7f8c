// Search: Sphinx's own scores; before all else the glossary's terms that have the words, then the glossary.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) =>
    score + (docname !== "glossary" ? 0 : anchor.startsWith("#term-") ? 2000 : 1000),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
