// What each flow had and sent in the time that is drawn; times are this page's own, in ms.
const SPAN_MS = 60000;
const ALL = "";
// What a host said last tells nothing of now when it is older.
const FRESH_S = 3;

// By flow: {shares: [{at, bps}], sent: [{at, bps}]}, oldest first.
const histories = new Map();

function historyOf(name) {
  if (!histories.has(name)) histories.set(name, { shares: [], sent: [] });
  return histories.get(name);
}

function add(points, at, bps) {
  const last = points[points.length - 1];
  if (last?.at >= at) return;
  // Of many that are alike the first and the last draw the same line.
  if (last?.bps === bps && points[points.length - 2]?.bps === bps) last.at = at;
  else points.push({ at, bps });
  // One older than the span stays, so that lines begin at the left edge.
  while (points.length > 1 && points[1].at < at - SPAN_MS) points.shift();
}

// Of those that are known.
function total(flows, key) {
  return flows.reduce((sum, flow) => sum + (flow[key] ?? 0), 0);
}

function remember(status, now) {
  const hosts = new Map(status.hosts.map((host) => [host.name, host]));
  const live = [];
  add(historyOf(ALL).shares, now, total(status.flows, "share_bps"));
  for (const flow of status.flows) {
    const history = historyOf(flow.flow);
    const { heard_s: age } = hosts.get(flow.host);
    add(history.shares, now, flow.share_bps);
    // What was sent is of the time of its host's report. Two events with the same report are a few ms apart in that.
    const last = history.sent[history.sent.length - 1];
    if (age !== null && !(last?.at > now - age * 1000 - 20)) add(history.sent, now - age * 1000, flow.sent_bps);
    if (age !== null && age < FRESH_S && flow.sent_bps !== null) live.push(history.sent);
  }
  sumUp(live);
  const known = new Set([ALL, ...status.flows.map((flow) => flow.flow)]);
  for (const name of histories.keys()) if (!known.has(name)) histories.delete(name);
}

// Hosts report at different times: values as they came, added up, would show falls at each change that never were.
// So the sum is of values at the same time, up to where all are known.
function sumUp(live) {
  const { sent } = historyOf(ALL);
  const begin = Math.max(sent[sent.length - 1]?.at ?? 0, ...live.map((points) => points[0].at));
  const end = Math.min(...live.map((points) => points[points.length - 1].at));
  const times = new Set();
  for (const points of live) {
    for (let index = points.length - 1; points[index]?.at > begin; index--) {
      if (points[index].at <= end) times.add(points[index].at);
    }
  }
  for (const at of [...times].sort((one, other) => one - other)) {
    add(sent, at, live.reduce((sum, points) => sum + between(points, at), 0));
  }
}

// The value at a time, linear between those known; 0 where it is not.
function between(points, at) {
  const after = points.findLastIndex((point) => point.at <= at);
  const [one, other] = [points[after], points[after + 1]];
  if (!one || one.bps === null) return 0;
  if (!other || other.bps === null) return one.bps;
  return one.bps + ((other.bps - one.bps) * (at - one.at)) / (other.at - one.at);
}

function greatest(names) {
  let most = 0;
  for (const name of names) {
    const { shares, sent } = historyOf(name);
    for (const { bps } of [...shares, ...sent]) most = Math.max(most, bps ?? 0);
  }
  return most;
}

const UNITS = [[1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"]];

function unitOf(bps) {
  return UNITS.find(([size]) => bps >= size) ?? UNITS[2];
}

function rate(bps) {
  if (bps === null) return "–";
  if (bps === 0) return "0";
  const rounded = Number(bps.toPrecision(3));
  const [size, unit] = unitOf(rounded);
  return `${Number((rounded / size).toPrecision(3))} ${unit}`;
}
