// The numbers: a row a flow, the summary, who asks for what.
function fill(row, texts) {
  texts.forEach((text, index) => {
    const cell = row.children[index] ?? row.appendChild(document.createElement(index === 0 ? "th" : "td"));
    if (index === 0) cell.scope = "row";
    if (cell.textContent !== text) cell.textContent = text;
  });
}

// Keeps one child of the parent for each key, in order; those that stay are not touched, so neither is the focus.
function keep(parent, keys, make) {
  const have = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  keys.forEach((key, index) => {
    const child = have.get(key) ?? make(key);
    child.dataset.key = key;
    have.delete(key);
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
  for (const child of have.values()) child.remove();
  return [...parent.children];
}

function showFlows(body, status) {
  const hosts = new Map(status.hosts.map((host) => [host.name, host]));
  const rows = keep(body, status.flows.map((flow) => flow.flow), () => document.createElement("tr"));
  status.flows.forEach((flow, index) => {
    const host = hosts.get(flow.host);
    const lease = host?.lease_left_s;
    fill(rows[index], [
      flow.flow,
      flow.class,
      host?.drained ? `${flow.host} (drained)` : flow.host,
      flow.share_bps === 0 ? "ordinary" : rate(flow.share_bps),
      rate(flow.target_bps),
      rate(flow.minimum_bps),
      rate(flow.sent_bps),
      payload(flow.acked_bps),
      flow.connections === null ? "–" : String(flow.connections),
      lease === undefined || lease === null ? "–" : lease > 0 ? `${lease.toFixed(1)} s` : host.leased ? "run out" : "none yet",
    ]);
  });
}

function payload(bps) {
  return bps === null ? "–" : `${(bps / 8e6).toFixed(1)} MB/s`;
}

function showSummary(list, status) {
  const facts = {
    guaranteed: rate(status.guarantee_bps),
    "given away": rate(status.trusted_bps),
    free: rate(status.free_bps),
    "payload, all": payload(total(status.flows, "acked_bps")),
    leader: status.leader ?? "none known",
    orders: status.settled ? "in force" : "not all in force",
  };
  const entries = keep(list, Object.keys(facts), (key) => {
    const entry = document.createElement("div");
    entry.append(document.createElement("dt"), document.createElement("dd"));
    entry.firstChild.textContent = key;
    return entry;
  });
  Object.values(facts).forEach((fact, index) => {
    const cell = entries[index].lastChild;
    if (cell.textContent !== fact) cell.textContent = fact;
  });
}

function showAsked(list, status, stop) {
  const keys = status.asked.map((each) => `${each.class}/${each.who}`);
  const entries = keep(list, keys.length ? keys : [""], (key) => {
    const entry = document.createElement("li");
    entry.append(document.createElement("span"));
    if (key && stop) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `Stop ${key.replace("/", " of ")}`;
      button.addEventListener("click", () => stop(key));
      entry.append(" ", button);
    }
    return entry;
  });
  const now = Date.now() / 1000;
  entries.forEach((entry, index) => {
    const each = status.asked[index];
    const left = each?.until_unix_s == null ? "until stopped" : `${Math.max(0, Math.ceil(each.until_unix_s - now))} s left`;
    const host = each?.host ? ` on ${each.host}` : "";
    const words = each ? `${each.class}${host}, by ${each.who}, ${left}` : "nothing";
    if (entry.firstChild.textContent !== words) entry.firstChild.textContent = words;
  });
}
