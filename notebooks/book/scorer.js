// Search: Sphinx's own scores, and the glossary before all else that has the words.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => score + (docname === "glossary" ? 1000 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
