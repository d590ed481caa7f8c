// Search: Sphinx's own scores; before all else the glossary's terms that have the words, then the glossary. Then come
// pages that have all words in their name or title, and of equals those that the contents list first. A title with
// another form of a word, as "Windows" for "window", is no more than a text with it, unless the page is named so.
const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

function score([docname, title, anchor, descr, found]) {
  const asked = wordsOf(new URLSearchParams(location.search).get("q") ?? "");
  const name = wordsOf(docname.replaceAll("_", " ")), named = [...name, ...wordsOf(title)];
  const links = [...document.querySelectorAll(".sidebar-tree a")].map((link) => link.getAttribute("href"));
  const place = (links.indexOf(`${docname}.html`) + links.length) % links.length; // what is not listed comes last
  const isIn = (words) => asked.some((word) => words.some((one) => one.includes(word)));
  let points = found - place / 1000;
  if (docname === "glossary") points += anchor.startsWith("#term-") ? 2000 : 1000;
  else if (asked.every((word) => named.includes(word))) points += 100;
  else if (!asked.some((word) => named.includes(word)) && isIn(named) && !isIn(name)) points += Scorer.term - found;
  return points;
}

var Scorer = {
  score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
