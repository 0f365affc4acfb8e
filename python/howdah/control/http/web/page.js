// Puts all together: events into histories, histories into charts, at most ten times a second.
const STALE_MS = 2500;
const REDRAW_MS = 1000;
// Numbers that change more often cannot be read; lines can.
const NUMBERS_MS = 500;
const WHO = "page";

const at = (id) => document.getElementById(id);
const charts = new Map();
let newest = null;
let heardAt = 0;
let numbersAt = -Infinity;
let most = 0;
let why = "";

const visible = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = charts.get(entry.target.dataset.flow);
    if (chart) chart.seen = entry.isIntersecting;
  }
  redraw();
});

function arrange(status) {
  const wanted = [ALL, ...status.flows.map((flow) => flow.flow)];
  keep(at("charts"), wanted.map((name) => `chart ${name}`), (key) => {
    const name = key.slice("chart ".length);
    const chart = new Chart(name, name === ALL ? "all" : name);
    charts.set(name, chart);
    visible.observe(chart.figure);
    return chart.figure;
  });
  for (const name of charts.keys()) if (!wanted.includes(name)) charts.delete(name);
}

function redraw() {
  if (!newest) return;
  const now = performance.now();
  const trusted = newest.trusted_bps;
  const same = at("same").checked;
  const seen = [...charts.values()].filter((chart) => chart.seen);
  // All are measured before any is drawn: a layout each would take the browser whole.
  const sizes = seen.map((chart) => chart.svg.getBoundingClientRect());
  seen.forEach((chart, index) => {
    const { name } = chart;
    if (name === ALL) chart.draw(sizes[index], now, Math.max(trusted, greatest([ALL])), trusted);
    else chart.draw(sizes[index], now, same ? most : greatest([name]), null);
  });
}

function caption(status) {
  const say = (name, sent, share, more = "") => charts.get(name).say(`sends ${rate(sent)}, share ${rate(share)}${more}`);
  const unknown = status.flows.filter((flow) => flow.sent_bps === null).length;
  const more = unknown ? `, without ${unknown} not known` : "";
  say(ALL, total(status.flows, "sent_bps"), total(status.flows, "share_bps"), more);
  for (const flow of status.flows) say(flow.flow, flow.sent_bps, flow.share_bps);
}

function state(name, words) {
  document.body.dataset.state = name;
  if (at("state").textContent !== words) at("state").textContent = words;
}

function tellState() {
  const silent = performance.now() - heardAt;
  if (!newest) state("connecting", why || "connecting");
  else if (why) state("lost", `${why}; this is ${Math.round(silent / 1000)} s old`);
  else if (silent > STALE_MS) state("stale", `nothing heard for ${Math.round(silent / 1000)} s`);
  else state("live", "live");
}

function show(status, role) {
  const operates = role === "operate";
  newest = status;
  heardAt = performance.now();
  why = "";
  document.title = `${status.policy}: guaranteed path`;
  at("policy").textContent = status.policy;
  at("entry").hidden = true;
  at("asking").hidden = !operates || status.askable.length === 0;
  remember(status, heardAt);
  arrange(status);
  for (const { share_bps, sent_bps } of status.flows) most = Math.max(most, share_bps ?? 0, sent_bps ?? 0);
  showAsked(at("asked"), status, operates && stop);
  showStarts(status);
  tellState();
  tellNumbers();
  redraw();
}

function tellNumbers() {
  const now = performance.now();
  if (!newest || now - numbersAt < NUMBERS_MS) return;
  numbersAt = now;
  most = greatest(newest.flows.map((flow) => flow.flow));
  caption(newest);
  showSummary(at("summary"), newest);
  showFlows(at("flows"), newest);
}

function showStarts(status) {
  keep(at("starts"), status.askable, (name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Start ${name}`;
    button.addEventListener("click", () => start(name));
    return button;
  });
}

async function start(name) {
  const span = at("span").value;
  const path = `v1/asked/${encodeURIComponent(name)}/${WHO}`;
  at("refused").textContent = (await order("PUT", path, { for_s: span ? Number(span) : null })) ?? "";
}

async function stop(key) {
  const path = key.split("/").map(encodeURIComponent).join("/");
  at("refused").textContent = (await order("DELETE", `v1/asked/${path}`)) ?? "";
}

function open() {
  follow({
    status: show,
    lost(words) {
      why = words;
      tellState();
    },
    locked(words) {
      state("locked", "a token is needed");
      at("entry-why").textContent = words;
      at("entry").hidden = false;
      at("token").focus();
    },
  });
}

at("entry").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at("token").value.trim());
  at("token").value = "";
  state("connecting", "connecting");
  open();
});
at("asking").addEventListener("submit", (event) => event.preventDefault());
at("same").addEventListener("change", redraw);
addEventListener("resize", redraw);
setInterval(() => {
  if (document.body.dataset.state === "locked") return;
  tellState();
  tellNumbers();
  if (performance.now() - heardAt >= REDRAW_MS) redraw();
}, NUMBERS_MS);
open();
