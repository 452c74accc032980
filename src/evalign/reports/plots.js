"use strict";
// Plots are drawn from the facts inside the page; names from data are text, never markup.
const facts = JSON.parse(document.getElementById("facts").textContent);
const { models } = facts;

const known = (value) => typeof value === "number" && Number.isFinite(value);
const number = (value, digits = 3, signed = false) => {
  if (!known(value)) return "–";
  const text = Math.abs(value).toFixed(digits);
  const sign = Number(text) === 0 ? "" : value < 0 ? "−" : signed ? "+" : "";
  return sign + text;
};
// Thresholds close to 0 or 1 need more digits, or their neighbours would look the same.
const position = (value) => {
  const near = Math.min(value, 1 - value);
  return number(value, near > 0 ? Math.min(9, Math.max(3, 1 - Math.floor(Math.log10(near)))) : 3);
};
const count = (value) => (known(value) ? Math.round(value).toLocaleString("en-US") : "–");
const percent = (share) => (known(share) ? `${number(100 * share, 1)} %` : "–");

// Plotly interprets some HTML in its texts, so names from data are escaped.
const safe = (text, most = 24) => {
  const letters = Array.from(String(text));
  const short = letters.length > most ? letters.slice(0, most - 1).join("") + "…" : letters.join("");
  return short.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const COLOURS = ["one", "two", "three", "four", "five", "six", "seven"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const SYMBOLS = ["circle", "square", "triangle-up", "cross", "x", "star", "pentagon"];
const lineOf = (place) => ({ color: colour(COLOURS[place % 7]), dash: DASHES[place % 5], width: 2 });

const axis = (title, more = {}) => ({
  title: { text: title, standoff: 8, font: { size: 13 } }, gridcolor: colour("grid"), linecolor: colour("line"), zeroline: false,
  fixedrange: true, automargin: true, ticks: "", ...more,
});
const layout = (more) => ({
  font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("soft") },
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, hovermode: "closest",
  margin: { l: 8, r: 8, t: 8, b: 8 }, showlegend: false,
  legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
  hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
  ...more,
});
const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false };

const draw = (name, traces, form, height) => {
  const place = document.getElementById(`plot-${name}`);
  if (place) Plotly.react(place, traces, layout({ width: place.clientWidth, height, ...form }), CONFIG);
};

function drawComparison() {
  const place = document.getElementById("plot-comparison");
  if (!place) return;
  const { comparison } = facts;
  const sign = comparison.higher_is_better ? 1 : -1;
  const violation = (row) => Math.min(known(row.slack) ? row.slack : 0, 0);
  const rows = comparison.rows.filter((row) => known(row.mean))
    .sort((a, b) => violation(a) - violation(b) || sign * (a.mean - b.mean));
  const names = rows.map((row) => safe(row.method));
  const wide = place.clientWidth >= 640;
  const every = rows.flatMap((row, at) => row.values.map((value) => [value, at]));
  const look = rows.map((row) => (row.method === comparison.best ? colour("two") : colour("one")));
  const shape = rows.map((row) => (row.method === comparison.best ? "diamond" : "circle"));
  const error = { type: "data", thickness: 1.5, width: 0 };
  const others = rows.map((row, at) => [row, at]).filter(([row]) => known(row.difference));
  const text = (row) => `${safe(row.method)}: ${number(row.mean)}`;
  const gap = (row) => `${safe(row.method)}: ${number(row.difference, 3, true)}`
    + (known(row.low) ? `, ${number(row.low)} to ${number(row.high)}` : "");
  const ticks = { tickvals: rows.map((_, at) => at), ticktext: names, range: [-0.6, rows.length - 0.4], showgrid: false };
  const alone = !others.length; // nothing differs from a reference that is alone
  const half = wide && !alone ? [[0, 0.46], [0.54, 1]] : [[0, 1], [0, 1]];
  const rise = wide || alone ? [[0, 1], [0, 1]] : [[0.58, 1], [0, 0.42]];
  const zero = { type: "line", xref: "x2", yref: "y2", x0: 0, x1: 0, y0: -0.6, y1: rows.length - 0.4 };
  draw("comparison", [
    { x: every.map((one) => one[0]), y: every.map((one) => one[1]), mode: "markers", hoverinfo: "skip",
      marker: { symbol: "line-ns-open", size: 9, color: colour("soft"), opacity: 0.7 } },
    { x: rows.map((row) => row.mean), y: rows.map((_, at) => at), mode: "markers", hovertext: rows.map(text),
      hoverinfo: "text", marker: { size: 10, color: look, symbol: shape } },
    { x: others.map(([row]) => row.difference), y: others.map(([, at]) => at), xaxis: "x2", yaxis: "y2", mode: "markers",
      error_x: { ...error, symmetric: false, color: colour("ink"),
        array: others.map(([row]) => (known(row.high) ? row.high - row.difference : 0)),
        arrayminus: others.map(([row]) => (known(row.low) ? row.difference - row.low : 0)) },
      hovertext: others.map(([row]) => gap(row)), hoverinfo: "text",
      marker: { size: 10, color: others.map(([, at]) => look[at]), symbol: others.map(([, at]) => shape[at]) } },
  ], {
    xaxis: axis(safe(comparison.metric, 40), { domain: half[0] }),
    xaxis2: axis(`difference to ${safe(comparison.reference)}`, { domain: half[1], anchor: "y2", visible: !alone }),
    yaxis: axis("", { ...ticks, domain: rise[0] }),
    yaxis2: axis("", { ...ticks, domain: rise[1], anchor: "x2", showticklabels: !wide, visible: !alone }),
    shapes: alone ? [] : [{ ...zero, line: { color: colour("soft"), width: 1, dash: "dash" } }],
  }, (wide || alone ? 90 : 190) + (wide || alone ? 34 : 60) * rows.length);
}

function drawMatrices() {
  models.forEach((model, at) => {
    if (!document.getElementById(`plot-matrix-${at}`)) return;
    const shares = model.matrix.map((row) => {
      const total = row.reduce((a, b) => a + b, 0);
      return row.map((n) => (total ? n / total : 0));
    });
    const names = model.classes.map((name) => safe(name, 14));
    const text = model.matrix.map((row, i) => row.map((n, j) =>
      `true ${safe(model.classes[i])}, predicted ${safe(model.classes[j])}: ${count(n)} (${percent(shares[i][j])})`));
    const ticks = { tickvals: names.map((_, k) => k), ticktext: names, showgrid: false, tickfont: { size: 9 } };
    const z = shares.map((row) => row.map(Math.sqrt)); // makes few errors visible beside many hits
    draw(`matrix-${at}`, [{ type: "heatmap", z, text, hoverinfo: "text", zmin: 0, zmax: 1, showscale: false,
      colorscale: [[0, colour("card")], [1, colour("one")]] }], {
      xaxis: axis("predicted", { ...ticks, tickangle: -90 }),
      yaxis: axis("true", { ...ticks, autorange: "reversed" }),
      width: Math.min(640, document.getElementById(`plot-matrix-${at}`).clientWidth),
    }, 560);
  });
}

const LINES = 5; // as many as can be told apart; a click on its name shows another

function drawPrecisionRecall(spot) {
  const traces = [];
  models.forEach((model, m) => (model.curves || []).forEach((curve, k, all) => {
    if (m > 0 && all.length > 1) return; // the classes of two models would be too many lines
    const at = all.length > 1 ? k : m;
    const name = safe(all.length > 1 ? curve.class : model.name);
    const visible = k < LINES ? true : "legendonly";
    traces.push({ x: curve.recall, y: curve.precision, mode: "lines", visible, line: { ...lineOf(at), shape: "hv" }, name,
      legendgroup: name, text: curve.thresholds.map((t) => `threshold ${position(t)}`),
      hovertemplate: "recall %{x:.3f}, precision %{y:.3f}<br>%{text}<extra></extra>" });
    traces.push({ x: [curve.operating_point.recall], y: [curve.operating_point.precision], mode: "markers", name, visible, legendgroup: name,
      showlegend: false, hovertext: [`${name}, own rule`], hoverinfo: "text+x+y",
      marker: { symbol: "diamond", size: 12, color: lineOf(at).color, line: { color: colour("paper"), width: 1.5 } } });
  }));
  if (spot) {
    traces.push({ x: [spot.recall], y: [spot.precision], mode: "markers", name: "slider", hoverinfo: "skip",
      showlegend: false, marker: { symbol: "circle-open", size: 15, color: colour("ink"), line: { width: 2 } } });
  }
  draw("precision-recall", traces, {
    showlegend: true, xaxis: axis("recall", { range: [-0.02, 1.02] }), yaxis: axis("precision", { range: [-0.02, 1.04] }),
  }, 400);
}

// With a slider, the open circle is the last trace; moving it alone is fast.
const follow = (name, x, y) => {
  const place = document.getElementById(`plot-${name}`);
  if (place && place.data) Plotly.restyle(place, { x: [[x]], y: [[y]] }, [place.data.length - 1]);
};

// The ranges of positions in which all constraints are satisfied.
function satisfiedRanges(part) {
  const slacks = Object.values(part.constraints);
  if (!slacks.length) return [];
  const satisfied = part.positions.map((_, at) => slacks.every((one) => known(one[at]) && one[at] >= -1e-9));
  const ranges = [];
  satisfied.forEach((yes, at) => {
    if (yes && !satisfied[at - 1]) ranges.push([part.positions[at], part.positions[at]]);
    if (yes) ranges[ranges.length - 1][1] = part.positions[at];
  });
  return ranges;
}

function drawAlong(part, now) {
  if (!part || !document.getElementById("plot-along")) return;
  const two = models[0].slider.kind === "threshold";
  const metric = safe(models[0].metric, 40);
  const traces = models.filter((model) => model.slider && (two || model === models[0])).map((model, m) => {
    const one = two ? model.slider : part;
    return { x: one.positions, y: one.values, mode: "lines", line: lineOf(m), name: safe(model.name),
      hovertemplate: `${two ? "threshold" : "weight"} %{x:.3f}<br>${metric} %{y:.3f}<extra></extra>` };
  });
  traces.push({ x: [part.positions[part.start]], y: [part.values[part.start]], mode: "markers", hovertext: ["own rule"],
    hoverinfo: "text+x+y", showlegend: false,
    marker: { symbol: "diamond", size: 12, color: colour("one"), line: { color: colour("paper"), width: 1.5 } } });
  traces.push({ x: [part.positions[now]], y: [part.values[now]], mode: "markers", hoverinfo: "skip", showlegend: false,
    marker: { symbol: "circle-open", size: 15, color: colour("ink"), line: { width: 2 } } });
  const start = part.positions[part.start];
  const line = { type: "line", yref: "paper", x0: start, x1: start, y0: 0, y1: 1 };
  const bands = satisfiedRanges(part).map(([x0, x1]) => ({ type: "rect", yref: "paper", x0, x1, y0: 0, y1: 1,
    fillcolor: colour("three"), opacity: 0.12, line: { width: 0 }, layer: "below" }));
  const ticks = two ? {} : { type: "log", range: [-1.3, 1.3], tickvals: [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16],
    ticktext: ["1/16", "1/8", "1/4", "1/2", "1", "2", "4", "8", "16"] };
  draw("along", traces, {
    showlegend: true,
    xaxis: axis(two ? `threshold on the probability of ${safe(models[0].classes[1])}` : `weight of ${safe(part.class)}`, ticks),
    yaxis: axis(metric),
    shapes: [...bands, { ...line, line: { color: colour("soft"), width: 1, dash: "dash" } }],
  }, 400);
}

function drawTraining() {
  const model = models.find((one) => one.history);
  const place = document.getElementById("plot-training");
  if (!model || !place) return;
  const rows = model.history;
  const x = rows.map((row) => row.epoch);
  const line = (key, name, look, more = {}) => ({ x, y: rows.map((row) => row[key]), name,
    mode: rows.length > 60 ? "lines" : "lines+markers", line: lineOf(look), marker: { symbol: SYMBOLS[look], size: 5 },
    hovertemplate: `epoch %{x}: ${name} %{y:.3f}<extra></extra>`, ...more });
  const starts = rows.filter((row, at) => !at || row.phase !== rows[at - 1].phase);
  const traces = [line("hard", "hard metric", 0)];
  const soft = rows.some((row) => known(row.soft));
  if (soft) {
    traces.push(line("soft", "soft metric", 1));
    traces.push(line("temperature", "temperature", 2, { yaxis: "y2", mode: "lines",
      line: { ...lineOf(2), width: 1.5, shape: "hv" } }));
  }
  draw("training", traces, {
    showlegend: true, xaxis: axis("epoch", { range: [0, x.length + 1] }), yaxis: axis("metric on the validation rows"),
    yaxis2: axis("temperature", { overlaying: "y", side: "right", showgrid: false, rangemode: "tozero", visible: soft,
      tickmode: "auto", nticks: 5, tickformat: ".2f" }),
    margin: { l: 8, r: 8, t: place.clientWidth < 480 ? 88 : 52, b: 8 },
    legend: { ...layout({}).legend, yref: "container", y: 1, yanchor: "top" },
    shapes: starts.slice(1).map((row) => ({ type: "line", yref: "paper", x0: row.epoch - 0.5, x1: row.epoch - 0.5, y0: 0,
      y1: 1, line: { color: colour("line"), width: 1 } })),
    annotations: starts.map((row) => ({ x: row.epoch - 0.5, y: 1, yref: "paper", xanchor: "left", yanchor: "bottom",
      text: safe(row.phase), showarrow: false, font: { size: 12, color: colour("soft") } })),
  }, 380);
}

function drawCalibration() {
  models.forEach((model, at) => {
    if (!model.calibration || !document.getElementById(`plot-calibration-${at}`)) return;
    const line = ({ bins }, name, place) => ({ x: bins.map((one) => one.confidence), y: bins.map((one) => one.accuracy),
      name, mode: "lines+markers", line: { ...lineOf(place), width: 1.25 },
      marker: { symbol: SYMBOLS[place], size: bins.map((one) => 5 + 11 * Math.sqrt(one.count / model.rows)) },
      text: bins.map((one) => `${count(one.count)} rows`),
      hovertemplate: "confidence %{x:.3f}, right %{y:.3f}<br>%{text}<extra></extra>" });
    const { before, after } = model.calibration;
    const low = Math.min(0.5, ...[before, after].flatMap((one) => (one ? one.bins : [])).flatMap((one) => [one.confidence, one.accuracy]));
    const traces = [line(before, "as it is", 0)];
    if (after) traces.push(line(after, "calibrated", 1));
    traces.push({ x: [low, 1], y: [low, 1], mode: "lines", hoverinfo: "skip", showlegend: false,
      line: { color: colour("soft"), width: 1, dash: "dot" } });
    draw(`calibration-${at}`, traces, {
      showlegend: true, xaxis: axis("confidence", { range: [low - 0.02, 1.02] }),
      yaxis: axis("share that is right", { range: [low - 0.02, 1.02] }),
    }, 360);
  });
}

function drawImportance() {
  if (!document.getElementById("plot-importance")) return;
  const rows = facts.explanation.importances.filter((one) => known(one.value)).reverse();
  const error = { type: "data", symmetric: false, thickness: 1.5, width: 0, color: colour("ink"),
    array: rows.map((one) => (known(one.high) ? one.high - one.value : 0)),
    arrayminus: rows.map((one) => (known(one.low) ? one.value - one.low : 0)) };
  draw("importance", [{ x: rows.map((one) => one.value), y: rows.map((_, at) => at), mode: "markers", error_x: error,
    marker: { size: 10, color: colour("one") }, hoverinfo: "text",
    hovertext: rows.map((one) => `${safe(one.column)}: ${number(one.value)}, ${number(one.low)} to ${number(one.high)}`) }], {
    xaxis: axis(`loss of ${safe(facts.explanation.metric, 40)}`),
    yaxis: axis("", { tickvals: rows.map((_, at) => at), ticktext: rows.map((one) => safe(one.column)), showgrid: false,
      range: [-0.6, rows.length - 0.4] }),
    shapes: [{ type: "line", x0: 0, x1: 0, yref: "paper", y0: 0, y1: 1, line: { color: colour("soft"), width: 1, dash: "dash" } }],
  }, 80 + 30 * rows.length);
}

function drawDependences() {
  const { dependences = [] } = facts.explanation || {};
  const most = Math.max(0.01, ...dependences.flatMap((one) => Object.values(one.probabilities).flat()));
  dependences.forEach((one, at) => {
    const names = Object.keys(one.probabilities);
    const traces = names.map((name, k) => ({ x: one.positions || one.labels.map((text) => safe(text, 16)), y: one.probabilities[name],
      name: safe(name), mode: one.positions ? "lines+markers" : "markers", line: lineOf(k),
      marker: { symbol: SYMBOLS[k], size: one.positions ? 6 : 10, color: lineOf(k).color },
      text: one.labels.map((text) => safe(text)), hovertemplate: "%{text}: %{y:.3f}<extra></extra>" }));
    draw(`dependence-${at}`, traces, {
      showlegend: names.length > 1,
      xaxis: axis(safe(one.column), one.positions ? {} : { type: "category" }),
      yaxis: axis(names.length > 1 ? "mean probability" : `mean probability of ${safe(names[0], 16)}`, { range: [0, 1.05 * most] }),
    }, 280);
  });
}

function drawLearning() {
  if (!document.getElementById("plot-learning")) return;
  const { points, metric } = facts.learning;
  const error = { type: "data", symmetric: false, thickness: 1.5, width: 0, color: colour("one"),
    array: points.map((one) => (known(one.high) ? one.high - one.value : 0)),
    arrayminus: points.map((one) => (known(one.low) ? one.value - one.low : 0)) };
  draw("learning", [{ x: points.map((one) => one.rows), y: points.map((one) => one.value), mode: "lines+markers", error_y: error,
    line: lineOf(0), marker: { size: 9 }, hovertemplate: "%{x} rows: %{y:.3f}<extra></extra>" }], {
    xaxis: axis("rows trained on", { rangemode: "tozero" }), yaxis: axis(safe(metric, 40)),
  }, 300);
}
