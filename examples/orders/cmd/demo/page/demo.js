// Shows the samples that come from /samples, and sends what the buttons say.
"use strict";

const minute = 60000;
const byId = (id) => document.getElementById(id);

const whole = (v) => Math.round(v).toLocaleString("en");
const few = (v) => (v > 0 && v < 9.95 ? v.toFixed(1) : whole(v));
const time = (ms) => {
  const digits = (v) => v.toFixed(v < 9.95 ? 1 : 0);
  return ms < 999.5 ? digits(ms) + "\u00a0ms" : digits(ms / 1000) + "\u00a0s";
};
const waits = (f) => (f.any ? time(f.p50) + "\u00a0· " + time(f.p99) : "–");

// The rows of the table. A value may be bad. An optional row is hidden while it says nothing.
const rows = [
  { name: (s) => `Connections in use, of ${s.pool}`, of: (shop) => few(shop.inUse), bad: (shop, s) => shop.inUse >= s.pool },
  { name: () => "Orders/s, on sale", of: (shop) => whole(shop.onSale.perS) },
  { name: () => "Orders/s, other products", of: (shop) => whole(shop.others.perS) },
  { name: () => "Wait, on sale: p50 · p99", of: (shop) => waits(shop.onSale) },
  { name: () => "Wait, other products: p50 · p99", of: (shop) => waits(shop.others) },
  { name: () => "Customers who left", of: (shop) => whole(shop.onSale.gaveUp + shop.others.gaveUp),
    bad: (shop) => shop.onSale.gaveUp + shop.others.gaveUp > 0 },
  { name: () => "Orders on sale, since the start", of: (shop) => whole(shop.sold) },
  { name: () => "Orders, other products, since the start", of: (shop) => whole(shop.othersSold) },
  { name: () => "Oversold, since the start", of: (shop) => whole(shop.oversold), bad: (shop) => shop.oversold > 0 },
  { name: () => "Paused holder", of: (shop) => shop.holder || "none", text: true },
  { name: () => "Last error", of: (shop) => shop.err, text: true, optional: true },
];

// The charts. A value is missing if nothing ended in its second.
const charts = [
  { title: "Connections in use", of: (shop) => shop.inUse, most: (s) => s.pool },
  { title: "Orders/s, all products", of: (shop) => shop.onSale.perS + shop.others.perS },
  { title: "Wait p99: product on sale", of: (shop) => (shop.onSale.any ? shop.onSale.p99 : null), log: true },
  { title: "Wait p99: other products", of: (shop) => (shop.others.any ? shop.others.p99 : null), log: true },
];

let history = []; // samples of the last minute

function make(parent, name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  parent.append(e);
  return e;
}

function makeSVG(parent, name, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  parent.append(e);
  return e;
}

// set changes a text only if it differs, so that a selection stays.
function set(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

function build() {
  for (const row of rows) {
    const tr = make(byId("figures"), "tr");
    if (row.text) tr.className = "text";
    row.line = tr;
    row.head = make(tr, "th");
    row.head.scope = "row";
    row.cells = [0, 1, 2].map(() => make(tr, "td"));
  }
  for (const chart of charts) {
    const figure = make(byId("charts"), "figure");
    make(figure, "figcaption", chart.title);
    const plot = make(figure, "div", undefined, "plot");
    chart.svg = makeSVG(plot, "svg", { viewBox: "0 0 1000 130", preserveAspectRatio: "none", role: "img" });
    chart.ticks = makeSVG(chart.svg, "g", {});
    chart.marks = makeSVG(chart.svg, "g", {});
    chart.paths = [0, 1, 2].map((i) => makeSVG(chart.svg, "path", { class: "line" + i }));
    chart.plot = plot;
  }
  for (let number = 1; number <= 5; number++) buildNode(number);
  byId("load").addEventListener("change", sendLoad);
  byId("pause").addEventListener("click", () => post("/holder"));
}

const nodes = [];

function buildNode(number) {
  const li = make(byId("nodes"), "li");
  const m = { name: make(li, "span", "", "name"), buttons: {} };
  for (const [action, text] of [["kill", "Kill"], ["freeze", "Freeze"], ["thaw", "Continue"], ["restart", "Restart empty"]]) {
    const button = make(li, "button", text);
    button.type = "button";
    button.setAttribute("aria-label", `${text} node ${number}`);
    button.addEventListener("click", () => post(`/nodes/${number}/${action}`));
    m.buttons[action] = button;
  }
  nodes.push(m);
}

async function post(path, body) {
  const options = { method: "POST" };
  if (body) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json" };
  }
  let problem = "";
  try {
    const reply = await fetch(path, options);
    if (!reply.ok) problem = await reply.text();
  } catch (e) {
    problem = "The demonstration does not answer.";
  }
  set(byId("problem"), problem);
}

let sending = 0; // a sample that was under way must not undo a choice

async function sendLoad() {
  const form = new FormData(byId("load"));
  sending++;
  await post("/load", {
    callers: Number(form.get("callers")),
    outsideMs: Number(form.get("outsideMs")),
    products: form.get("products"),
  });
  sending--;
}

function show(sample) {
  history.push(sample);
  history = history.filter((s) => s.atMs <= sample.atMs && s.atMs > sample.atMs - minute);
  set(byId("pool"), String(sample.pool));
  set(byId("patience"), time(sample.patienceMs).replace(/\.0\s/, " "));
  sample.shops.forEach((shop, i) => set(byId("way" + i), shop.way));
  for (const row of rows) {
    set(row.head, row.name(sample));
    row.line.hidden = Boolean(row.optional) && sample.shops.every((shop) => !row.of(shop));
    sample.shops.forEach((shop, i) => {
      set(row.cells[i], row.of(shop));
      row.cells[i].classList.toggle("bad", Boolean(row.bad && row.bad(shop, sample)));
    });
  }
  showHeadline(sample.shops);
  if (!sending) showLoad(sample.load);
  sample.nodes.forEach(showNode);
  byId("pause").disabled = sample.shops.some((shop) => shop.holder);
  showEvents(sample.events);
  charts.forEach((chart) => draw(chart, sample));
}

// showHeadline says how many times as many orders the other shops have served as row locks.
function showHeadline([rows, ...others]) {
  const times = (of) => others.map((shop) => `${shop.way} ${few(of(shop) / of(rows))}\u00a0×`).join(", ");
  const parts = [];
  if (rows.othersSold > 0) parts.push(`Orders of other products, against row locks: ${times((shop) => shop.othersSold)}.`);
  if (rows.sold > 0) parts.push(`Orders on sale: ${times((shop) => shop.sold)}.`);
  set(byId("headline"), parts.join(" "));
}

function showLoad(load) {
  for (const [field, value] of Object.entries(load)) {
    const input = document.querySelector(`input[name="${field}"][value="${value}"]`);
    if (input) input.checked = true;
  }
  set(byId("products-text"), load.products === "flash"
    ? "Half of the callers want the one product on sale. Each of the others takes one of 999 other products."
    : "Each order takes three of 1,000 products, the popular ones most often. The product on sale is the most popular.");
}

function showNode(m, i) {
  let text = m.down ? `${m.down}; lockpipe: ${m.state}` : m.state;
  if (m.forMs > 0) text += `, ${Math.ceil(m.forMs / 1000)}\u00a0s`;
  set(nodes[i].name, `node ${i + 1}: ${text}`);
  nodes[i].name.classList.toggle("bad", Boolean(m.down) || m.state !== "up");
  const { kill, freeze, thaw, restart } = nodes[i].buttons;
  kill.disabled = m.down === "killed";
  freeze.disabled = m.down !== "";
  freeze.hidden = m.down === "frozen";
  thaw.hidden = m.down !== "frozen";
  restart.disabled = false;
}

let shown = 0; // the number of the last event in the list

function showEvents(events) {
  for (const e of events) {
    if (e.number <= shown) continue;
    shown = e.number;
    const li = document.createElement("li");
    li.textContent = `${whole(e.atMs / 1000)} s: ${e.text}`;
    byId("events").prepend(li);
  }
  while (byId("events").children.length > 12) byId("events").lastChild.remove();
  byId("done").hidden = shown === 0;
}

// above is a round number that is not below v.
function above(v) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(v, 1)));
  return [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= v);
}

function draw(chart, now) {
  const value = (s, i) => chart.of(s.shops[i]);
  let at, ticks, label = whole;
  if (chart.log) { // from 1 ms to 10 s
    at = (v) => Math.min(Math.max(Math.log10(Math.max(v, 1)) / 4, 0), 1);
    ticks = [1, 10, 100, 1000, 10000];
    label = (v) => (v < 1000 ? v + " ms" : v / 1000 + " s");
  } else {
    const top = chart.most ? chart.most(now) : above(Math.max(10, ...history.flatMap((s) => s.shops.map((_, i) => value(s, i)))));
    at = (v) => v / top;
    ticks = [0, top / 2, top];
  }
  const span = Math.min(minute, Math.max(now.atMs, 10000)); // a demonstration that has just begun is wide too
  const x = (ms) => (1000 * (ms - now.atMs + span)) / span;
  const y = (v) => 130 * (1 - at(v));
  drawTicks(chart, ticks.map((v) => ({ y: y(v), text: label(v) })));
  chart.marks.replaceChildren();
  for (const e of now.events) {
    if (e.atMs > now.atMs - minute) makeSVG(chart.marks, "line", { class: "mark", x1: x(e.atMs), x2: x(e.atMs), y1: 0, y2: 130 });
  }
  chart.paths.forEach((path, i) => {
    let d = "", pen = "M";
    for (const s of history) {
      const v = value(s, i);
      if (v === null) {
        pen = "M";
        continue;
      }
      d += `${pen}${x(s.atMs).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = "L";
    }
    path.setAttribute("d", d);
  });
  const last = (i) => (value(now, i) === null ? "nothing" : chart.log ? time(value(now, i)) : few(value(now, i)));
  chart.svg.setAttribute("aria-label", `${chart.title}, the last minute. Now ${now.shops.map((s, i) => `${s.way}: ${last(i)}`).join(", ")}`);
}

function drawTicks(chart, ticks) {
  const key = JSON.stringify(ticks);
  if (chart.key === key) return;
  chart.key = key;
  chart.ticks.replaceChildren();
  chart.plot.querySelectorAll("span").forEach((e) => e.remove());
  for (const t of ticks) {
    makeSVG(chart.ticks, "line", { class: "grid", x1: 0, x2: 1000, y1: t.y, y2: t.y });
    const span = make(chart.plot, "span", t.text);
    span.setAttribute("aria-hidden", "true");
    span.style.top = t.y + "px";
  }
}

function listen() {
  const source = new EventSource("/samples");
  source.onmessage = (e) => {
    const sample = JSON.parse(e.data);
    const last = history[history.length - 1];
    if (last && sample.atMs < last.atMs) { // another run
      shown = 0;
      byId("events").replaceChildren();
    }
    byId("state").className = "";
    set(byId("state"), "Live.");
    show(sample);
  };
  source.onerror = () => {
    byId("state").className = "over";
    set(byId("state"), "No connection to the demonstration: it has ended, or it is starting.");
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

build();
listen();
