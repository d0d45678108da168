
"use strict";
(() => {
  const make = (name, properties) => Object.assign(document.createElement(name), properties);
  const order = new Intl.Collator("en", { numeric: true });

  // A number with thousands separators sorts as a number, everything else as text; empty cells come last.
  const key = (cell) => {
    const text = cell.textContent.trim();
    const plain = text.replace(/,/g, "");
    return text === "" ? null : /^-?\d+(\.\d+)?$/.test(plain) ? Number(plain) : text;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return order.compare(String(a), String(b));
  };
  const sort = (table, column, heading) => {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
    rows.sort(([a], [b]) => (a === null || b === null ? compare(a, b) : up ? compare(a, b) : compare(b, a)));
    body.append(...rows.map(([, row]) => row));
    // What is folded away may have come first.
    const folded = table.closest(".table").querySelector("details.more");
    if (folded) folded.open = true;
  };

  const filter = (label, things, before) => {
    const count = make("span", { className: "quiet" });
    count.setAttribute("role", "status");
    const input = make("input", { type: "search", placeholder: "filter", name: "filter", autocomplete: "off" });
    input.setAttribute("aria-label", "filter " + label);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const thing of things()) {
        const text = thing.textContent.toLowerCase();
        thing.hidden = !words.every((word) => text.includes(word));
        shown += thing.hidden ? 0 : 1;
      }
      count.textContent = words.length ? shown + " of " + things().length : "";
      before.classList.toggle("filtered", words.length > 0);  // matches are shown though they were folded away
    });
    const line = make("div", { className: "filter" });
    line.append(input, count);
    before.before(line);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = make("button", { type: "button", textContent: heading.textContent });
      button.addEventListener("click", () => sort(table, column, heading));
      heading.replaceChildren(button);
    });
    if (table.tBodies[0].rows.length > 1)
      filter(table.caption.textContent, () => [...table.tBodies[0].rows], table.closest(".table"));
  }

  const findings = [...document.querySelectorAll("details.finding")];
  if (findings.length > 1) {
    filter("findings", () => findings, document.getElementById("findings-list"));
    const all = make("button", { type: "button", className: "small", textContent: "open all" });
    all.addEventListener("click", () => {
      const open = findings.some((each) => !each.open);
      for (const each of findings) each.open = open;
      all.textContent = open ? "close all" : "open all";
    });
    document.querySelector("#findings .filter").append(all);
  }
  const follow = () => {
    const wanted = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (wanted && wanted.matches("details")) {
      wanted.open = true;
      wanted.scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  follow();
  addEventListener("beforeprint", () => findings.forEach((each) => (each.open = true)));

  for (const code of document.querySelectorAll("code.copy")) {
    const button = make("button", { type: "button", className: "small", textContent: "copy" });
    button.setAttribute("aria-label", "copy the filter");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "selected";
      }
    });
    code.after(button);
  }

  const dialog = make("dialog", {});
  const view = make("div", { className: "view", tabIndex: 0 });
  const close = make("button", { type: "button", className: "small", textContent: "close" });
  const larger = make("button", { type: "button", className: "small", textContent: "larger" });
  dialog.setAttribute("aria-label", "picture");
  dialog.append(larger, close, view);
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  larger.addEventListener("click", () => {
    const large = view.querySelector("img").classList.toggle("large");
    larger.textContent = large ? "smaller" : "larger";
  });
  for (const picture of document.querySelectorAll("figure picture")) {
    const button = make("button", { type: "button", className: "small", textContent: "zoom" });
    button.setAttribute("aria-label", "zoom: " + picture.querySelector("img").alt);
    button.addEventListener("click", () => {
      view.replaceChildren(picture.cloneNode(true));
      larger.textContent = "larger";
      dialog.showModal();
    });
    picture.parentElement.querySelector("figcaption").append(button);
  }
})();
