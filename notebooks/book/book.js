// What moves in the book: widgets by their stored states, figures that open large, and search results in prose.
// Without it each widget's first picture stands still, and a figure's link opens the figure itself.

function play(box) {
  const widget = JSON.parse(box.querySelector("script").textContent);
  const picture = box.querySelector("img");
  const chosen = widget.controls.map((control) => control.start);
  const show = () => {
    const place = widget.controls.reduce((sum, control, i) => sum * control.values.length + chosen[i], 0);
    const { file, alt, width, phone } = widget.states[place];
    if (phone) box.querySelector("source").srcset = `${widget.address}/${phone}`;
    picture.src = `${widget.address}/${file}`;
    Object.assign(picture, { alt, width });
    picture.closest("a").href = picture.src;
  };
  const controls = element("div", { className: "play-controls" });
  const switches = element("div", { className: "play-switches" });
  widget.controls.forEach((control, i) => {
    const { values } = control;
    const choose = (place) => { chosen[i] = place; show(); };
    if (values.length === 1) return;
    if (typeof values[0] === "boolean") {
      if (!switches.parentElement) controls.append(switches);
      switches.append(checkbox(control, choose));
    } else if (values.every((value) => value !== "" && !isNaN(value)) && values.length > 3)
      controls.append(slider(control, choose));
    else controls.append(buttons(control, `${widget.address}-${i}`, choose));
  });
  box.querySelector(".play-hint").hidden = false;
  box.prepend(controls);
}

function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

function checkbox(control, choose) {
  const input = element("input", { type: "checkbox", checked: control.values[control.start] });
  input.addEventListener("change", () => choose(control.values.indexOf(input.checked)));
  return element("label", { className: "play-control" }, input, ` ${control.label}`);
}

function slider(control, choose) {
  const input = element("input", { type: "range", min: 0, max: control.values.length - 1, step: 1 });
  input.value = control.start;
  const shown = element("output", {});
  shown.style.minWidth = `${Math.max(...control.values.map((value) => value.length))}ch`;
  const tell = () => {
    shown.textContent = control.values[input.value];
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => { tell(); choose(Number(input.value)); });
  tell();
  return element("label", { className: "play-control play-row" }, element("span", {}, control.label), input, shown);
}

function buttons(control, name, choose) {
  const choices = element("div", { className: "play-choices" });
  control.values.forEach((value, place) => {
    const input = element("input", { type: "radio", name, checked: place === control.start });
    input.addEventListener("change", () => choose(place));
    choices.append(element("label", {}, input, ` ${value}`));
  });
  const group = element("div", { className: "play-control play-row" }, element("span", {}, control.label), choices);
  group.setAttribute("role", "radiogroup"); // not a fieldset: its legend takes no place in a grid
  group.setAttribute("aria-label", control.label);
  return group;
}

function enlarge(link) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || typeof HTMLDialogElement === "undefined") return;
    event.preventDefault();
    const small = link.querySelector("img");
    const close = element("button", { textContent: "Close", type: "button" });
    const stacked = /-phone\.(svg|png)$/.test(small.currentSrc);
    const large = element("img", { src: stacked ? small.currentSrc : link.href, alt: small.alt });
    const own = small.getAttribute("width"); // of a notebook's picture, which has more pixels than its place
    if (stacked || own) large.width = stacked ? 2 * small.clientWidth : own;
    const scroll = element("div", { className: "large", tabIndex: 0 }, large);
    const dialog = element("dialog", { className: "figure" }, close, scroll);
    dialog.setAttribute("aria-label", "Figure");
    dialog.addEventListener("click", ({ target }) => { if (target !== large) dialog.close(); });
    dialog.addEventListener("keydown", (event) => event.stopPropagation()); // Sphinx keeps Escape from closing it
    dialog.addEventListener("close", () => { dialog.remove(); link.focus(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// A table or a formula that is wider than its box fades where it goes on.
function fadeWhereItGoesOn(box) {
  const look = () => box.classList.toggle("goes-on", box.scrollWidth - box.clientWidth - box.scrollLeft >= 2);
  const sizes = new ResizeObserver(look);
  for (const one of [box, ...box.children]) sizes.observe(one);
  box.addEventListener("scroll", look, { passive: true });
}

// A link may lead to a row of a result's page that is in a closed fold.
function openAroundTheTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folds = [];
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) folds.push(fold);
  if (folds.every((fold) => fold.open)) return;
  folds.forEach((fold) => { fold.open = true; });
  target.scrollIntoView();
}

const NO_PROSE = "details.hide > summary, .cell_input, .cell_output, .highlight, math, .play, .toctree-wrapper, "
  + "table:not(.terms), table.terms :is(thead, td:nth-child(n + 4))"; // of a term: its two names and its meaning

function searchInProse() {
  if (typeof Search === "undefined" || !Search.htmlToText) return;
  const textOf = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll(NO_PROSE).forEach((part) => part.remove());
    page.querySelectorAll("table.terms td:nth-child(-n + 2)").forEach((cell) => cell.append(", "));
    return textOf(page.documentElement.outerHTML, anchor);
  };
  Search.makeSearchSummary = (html, words, anchor) => {
    const text = Search.htmlToText(html, anchor).replace(/\s+/g, " ").replaceAll(" ,", ",").trim();
    return text ? element("p", { className: "context", textContent: around(text, [...words]) }) : null;
  };
}

const BEFORE = 120, SHOWN = 240; // characters of an excerpt before the word that is found, and of all of it

// The part of a text around one of these words, from one blank to another; its beginning where it has none of them.
function around(text, words) {
  const small = text.toLowerCase();
  const place = words.map((word) => small.indexOf(word.toLowerCase())).filter((found) => found >= 0).at(-1) ?? 0;
  const from = place > BEFORE ? text.lastIndexOf(" ", place - BEFORE) + 1 : 0;
  const to = from + SHOWN < text.length ? text.lastIndexOf(" ", from + SHOWN) : text.length;
  return `${from ? "… " : ""}${text.slice(from, to)}${to < text.length ? " …" : ""}`;
}

// The search page has a field of its own, for on a phone the menu hides the one above the contents, which is left out.
function askOnTheSearchPage() {
  const results = document.getElementById("search-results");
  if (!results) return;
  const asked = new URLSearchParams(location.search).get("q")?.trim() ?? "";
  const form = document.createElement("form");
  form.className = "page-search";
  form.setAttribute("role", "search");
  form.setAttribute("aria-labelledby", "page-search");
  form.innerHTML = `<input type="search" name="q" autocomplete="off" aria-labelledby="page-search">
    <button>Search</button>`;
  form.elements.q.value = asked;
  results.before(element("h1", { id: "page-search", textContent: "Search the book" }), form);
  if (asked) return;
  const hint = element("p", {});
  hint.innerHTML = `Try <a href="?q=relative+shift">relative shift</a> or <a href="?q=mem_len">mem_len</a>,
    or look a term up in the <a href="glossary.html">glossary</a>.`;
  form.after(hint);
  form.elements.q.focus();
}

// A cell of a sentence or more must not become a column of single words: the style sheet gives it a least width.
// On a phone a table of words that is wider has a block for each row, with the heads in its cells; numbers scroll.
const LONG = 100, LEAST = 22, ACROSS = 46; // characters of a sentence, of its lines at least, of a phone's line
const NUMBER = /^[+−-]?\d|^–?$/;

function readOnAPhone(table) {
  const [heads, ...body] = [...table.rows].map((row) => [...row.cells]);
  const others = body.flatMap((cells) => cells.slice(1));
  body.flat().forEach((cell) => cell.classList.toggle("long", cell.textContent.length > LONG));
  const numbers = others.filter((cell) => NUMBER.test(cell.textContent.trim())).length;
  const width = (place) => 2 + Math.max(...[heads, ...body].map((cells) => needed(cells[place])));
  const across = [...heads.keys()].reduce((sum, place) => sum + width(place), 0);
  if (2 * numbers >= others.length || across <= ACROSS) return;
  table.classList.add("stacked");
  others.filter((cell) => cell.textContent.trim()).forEach((cell) => {
    cell.dataset.head = heads[cell.cellIndex].textContent;
  });
}

// Characters that a cell needs side by side: those of its longest word or code.
function needed(cell) {
  if (!cell) return 0;
  const code = [...cell.querySelectorAll("code")].map((part) => part.textContent);
  const words = code.concat(cell.matches("td") ? cell.textContent.split(/\s+/) : []);
  return Math.max(cell.matches(".long") ? LEAST : 0, ...words.map((word) => word.length));
}

// Sphinx offers to hide the matches of the last search on any page that is opened next.
function offerToHideOnlyWhatIsSeen() {
  const seen = [...document.querySelectorAll("article .highlighted")].some((match) => match.getClientRects().length);
  if (!seen) document.querySelectorAll(".highlight-link").forEach((offer) => offer.remove());
}

// The contents show which page is open. They alone scroll: scrollIntoView would scroll the page, too.
function showInContents() {
  const current = document.querySelector(".sidebar-tree .current-page");
  const contents = current?.closest(".sidebar-scroll");
  if (!contents) return;
  const above = current.getBoundingClientRect().top - contents.getBoundingClientRect().top;
  contents.scrollTop += above - contents.clientHeight / 2;
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".play").forEach(play);
  document.querySelectorAll("a.enlarge").forEach(enlarge);
  document.querySelectorAll(".table-wrapper table:not(.terms, .values)").forEach(readOnAPhone);
  document.querySelectorAll(".table-wrapper, .output.text_html, div.math").forEach(fadeWhereItGoesOn);
  searchInProse();
  askOnTheSearchPage();
  showInContents();
  openAroundTheTarget();
  addEventListener("hashchange", openAroundTheTarget);
  setTimeout(offerToHideOnlyWhatIsSeen, 100); // Sphinx marks the matches after 10 ms
});
