// One drawing: what was sent as a line over its area, the share as steps, both over the last minute.
const SVG = "http://www.w3.org/2000/svg";
const LEFT = 46, TOP = 8, BOTTOM = 18, RIGHT = 6;
const MARKS_S = [60, 40, 20, 0];

class Chart {
  constructor(name, title) {
    this.name = name;
    this.seen = false;
    this.figure = document.createElement("figure");
    this.figure.dataset.flow = name;
    this.figure.classList.toggle("all", name === ALL);
    const caption = document.createElement("figcaption");
    const heading = document.createElement("b");
    heading.textContent = title;
    this.numbers = document.createElement("span");
    caption.append(heading, this.numbers);
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("aria-hidden", "true");
    this.figure.append(caption, this.svg);
    this.paths = {};
    for (const kind of ["grid", "area", "trusted", "share", "sent"]) {
      this.paths[kind] = this.svg.appendChild(document.createElementNS(SVG, "path"));
      this.paths[kind].setAttribute("class", kind);
    }
    this.labels = this.svg.appendChild(document.createElementNS(SVG, "g"));
  }

  say(words) {
    if (this.numbers.textContent !== words) this.numbers.textContent = words;
  }

  draw({ width, height }, now, most, trusted) {
    if (width === 0) return;
    const step = niceStep(most / (height > 150 ? 4 : 2));
    const top = Math.max(1, Math.ceil((most / step) * 10.3)) * (step / 10);
    const x = (at) => LEFT + (width - LEFT - RIGHT) * Math.max(0, 1 - (now - at) / SPAN_MS);
    const y = (bps) => height - BOTTOM - (height - TOP - BOTTOM) * (bps / top);
    const { shares, sent } = historyOf(this.name);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.paths.share.setAttribute("d", steps(shares, x, y));
    const lines = unbroken(sent).map((run) => run.map(({ at, bps }) => `${x(at).toFixed(1)} ${y(bps).toFixed(1)}`));
    this.paths.sent.setAttribute("d", lines.map((line) => `M${line.join("L")}`).join(""));
    this.paths.area.setAttribute("d", lines.map((line) => areaOf(line, y(0))).join(""));
    this.paths.trusted.setAttribute("d", trusted ? `M${LEFT} ${y(trusted)}H${width - RIGHT}` : "");
    this.scale(width, height, step, top, y);
  }

  scale(width, height, step, top, y) {
    const key = [width, height, step, top].join();
    if (this.scaled === key) return;
    this.scaled = key;
    const [size, unit] = unitOf(top);
    const texts = [];
    let grid = "";
    for (let bps = 0; bps <= top * 1.001; bps += step) {
      grid += `M${LEFT} ${y(bps)}H${width - RIGHT}`;
      const number = Number((bps / size).toPrecision(3));
      texts.push(textAt(LEFT - 5, y(bps) + 4, "end", bps + step > top * 1.001 ? `${number} ${unit}` : `${number}`));
    }
    const last = texts[texts.length - 1];
    last.setAttribute("x", 2);
    last.setAttribute("text-anchor", "start");
    for (const s of MARKS_S) {
      const across = LEFT + (width - LEFT - RIGHT) * (1 - (s * 1000) / SPAN_MS);
      texts.push(textAt(across, height - 3, s === 0 ? "end" : s === 60 ? "start" : "middle", s === 0 ? "now" : `−${s} s`));
    }
    this.paths.grid.setAttribute("d", grid);
    this.labels.replaceChildren(...texts);
  }
}

function textAt(x, y, anchor, words) {
  const text = document.createElementNS(SVG, "text");
  text.setAttribute("x", x);
  text.setAttribute("y", y);
  text.setAttribute("text-anchor", anchor);
  text.textContent = words;
  return text;
}

// The next of 1, 2, 5 times a power of ten.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return power * ([1, 2, 5].find((digit) => digit * power >= least) ?? 10);
}

function unbroken(points) {
  const runs = [[]];
  for (const point of points) {
    if (point.bps === null) runs.push([]);
    else runs[runs.length - 1].push(point);
  }
  return runs.filter((run) => run.length > 0);
}

function areaOf(line, ground) {
  const first = line[0].split(" ")[0], last = line[line.length - 1].split(" ")[0];
  return `M${first} ${ground}L${line.join("L")}L${last} ${ground}Z`;
}

function steps(points, x, y) {
  let path = "";
  let open = false;
  for (const { at, bps } of points) {
    const across = x(at).toFixed(1);
    if (open) path += `H${across}`;
    if (bps !== null) path += open ? `V${y(bps).toFixed(1)}` : `M${across} ${y(bps).toFixed(1)}`;
    open = bps !== null;
  }
  return path;
}
