const { classes, threshold: fitted } = JSON.parse(document.getElementById("facts").textContent);
const get = (id) => document.getElementById(id);
const isBinary = fitted !== null;
// Only the first rows are shown, and of many classes only the probability of the predicted one.
const SHOWN = 100;
const WIDEST = 10;
let predictions = [];
let threshold = fitted;

get("address").textContent = new URL("predict", location.href);

function explain(reason) {
  get("problem").textContent = reason;
  get("problem").hidden = !reason;
}

async function ask(body) {
  const headers = { "Content-Type": "text/csv" };
  const response = await fetch("predict", { method: "POST", headers, body });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer.predictions;
}

async function predict(event) {
  event.preventDefault();
  const file = get("file").files[0];
  const body = file || get("text").value;
  explain("");
  if (!file && !body.trim()) return explain("There are no rows yet: paste some, or choose a file.");
  get("predict").disabled = true;
  try {
    predictions = await ask(body);
    threshold = fitted;
    show();
    get("result").hidden = false;
    get("result").focus();
  } catch (error) {
    get("result").hidden = true;
    explain(error instanceof TypeError || error instanceof SyntaxError ? "The server does not answer." : error.message);
  } finally {
    get("predict").disabled = false;
  }
}

// The class of a row; of two classes, by the threshold of the slider.
function decide(row) {
  return isBinary ? classes[Number(row.probabilities[classes[1]] >= threshold)] : row.prediction;
}

const format = (value) => value.toFixed(3);
const count = (value) => value.toLocaleString("en-US");

function show() {
  if (isBinary) {
    const slider = get("threshold");
    slider.value = threshold;
    get("position").textContent = String(Number(threshold.toPrecision(4)));
    slider.setAttribute("aria-valuetext", get("position").textContent);
  }
  showCounts();
  showRows();
}

function showCounts() {
  const counts = new Map(classes.map((name) => [name, 0]));
  for (const row of predictions) counts.set(decide(row), counts.get(decide(row)) + 1);
  const cells = [];
  for (const [name, rows] of counts) {
    const [cell, term, value, share] = ["div", "dt", "dd", "small"].map((tag) => document.createElement(tag));
    term.textContent = name;
    share.textContent = `${((100 * rows) / predictions.length).toFixed(1)} % of the rows`;
    value.append(count(rows), share);
    cell.append(term, value);
    cells.push(cell);
  }
  get("counts").replaceChildren(...cells);
}

function addCell(row, text, tag = "td") {
  const cell = document.createElement(tag);
  cell.textContent = text;
  row.append(cell);
  return cell;
}

function showRows() {
  const listed = classes.length <= WIDEST ? classes : null;
  get("head").replaceChildren();
  for (const name of ["row", "prediction", ...(listed || ["probability"])]) {
    const cell = addCell(get("head"), listed && listed.includes(name) ? `probability of ${name}` : name, "th");
    cell.scope = "col";
    if (name === "prediction") cell.className = "word";
  }
  const rows = predictions.slice(0, SHOWN).map((prediction, place) => {
    const row = document.createElement("tr");
    const name = decide(prediction);
    addCell(row, count(place + 1), "th").scope = "row";
    addCell(row, name).className = isBinary && name === classes[1] ? "word flagged" : "word";
    for (const one of listed || [name]) addCell(row, format(prediction.probabilities[one]));
    return row;
  });
  get("body").replaceChildren(...rows);
  const all = predictions.length;
  get("shown").textContent = all > SHOWN ? `The first ${SHOWN} of ${count(all)} rows` : `All ${count(all)} rows`;
}

// As `evalign predict --proba` writes it; a text that a spreadsheet would run begins with an apostrophe.
function quote(text) {
  const isNumber = /^[+-]?(\d|[.,]\d)[\d.,]*([eE][+-]?\d+)?$/.test(text);
  const safe = /^[=+\-@\t\r][^]/.test(text) && !isNumber ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function writeCsv() {
  const head = ["prediction", ...classes.map((name) => `probability_${name}`)].map(quote);
  const lines = predictions.map((row) => [quote(decide(row)), ...classes.map((name) => row.probabilities[name])]);
  return [head, ...lines].map((cells) => `${cells.join(",")}\n`).join("");
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([writeCsv()], { type: "text/csv" }));
  link.download = "predictions.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function move(value) {
  threshold = value;
  show();
}

get("form").addEventListener("submit", predict);
get("text").addEventListener("input", () => { get("file").value = ""; });
get("file").addEventListener("change", () => { if (get("file").files.length) get("text").value = ""; });
get("header").addEventListener("click", () => {
  get("file").value = "";
  get("text").value = `${get("text").placeholder}\n${get("text").value}`;
  get("text").focus();
});
get("download").addEventListener("click", download);
if (isBinary) {
  get("threshold").addEventListener("input", () => move(Number(get("threshold").value)));
  get("back").addEventListener("click", () => move(fitted));
}
