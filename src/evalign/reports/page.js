
// The slider: every position was counted when the page was written; the script only looks it up.
const input = document.getElementById("slider");
const picker = document.getElementById("slider-class");
const at = (id) => document.getElementById(`slider-${id}`);

const best = models[0];
const part = () => (picker ? best.slider.classes[Number(picker.value)] : best.slider);
const focus = () => (picker ? best.classes.indexOf(part().class) : known(best.positive) ? best.positive : 1);

function matrixAt(place) {
  const cells = part().matrices && part().matrices[place];
  if (!cells || Array.isArray(cells[0])) return cells;
  return [cells.slice(0, 2), cells.slice(2)];
}

// Precision, recall and the number of predicted rows of the class in focus.
function ratesAt(place) {
  const { precision, recall, predicted: rows } = part();
  if (precision) return { precision: precision[place], recall: recall[place], predicted: rows[place] };
  const cells = matrixAt(place);
  const k = focus();
  const predicted = cells.reduce((sum, row) => sum + row[k], 0);
  const actual = cells[k].reduce((a, b) => a + b, 0);
  return { precision: predicted ? cells[k][k] / predicted : 0, recall: actual ? cells[k][k] / actual : 0, predicted };
}

function showMatrix(cells) {
  const table = at("matrix");
  if (!table || !cells) return;
  Array.from(table.tBodies[0].rows).forEach((row, i) => {
    const total = cells[i].reduce((a, b) => a + b, 0);
    Array.from(row.querySelectorAll("td")).forEach((cell, j) => {
      const share = total ? cells[i][j] / total : null;
      cell.querySelector(".n").textContent = count(cells[i][j]);
      cell.querySelector(".rate").textContent = percent(share);
      cell.dataset.heat = share === null ? 0 : Math.round(10 * share);
    });
  });
}

function showBounds(place) {
  Object.entries(best.constraints).forEach(([name, bound], index) => {
    const slack = part().constraints[name][place];
    const satisfied = known(slack) && slack >= -1e-9;
    const value = known(slack) ? (bound.sense === ">=" ? bound.bound + slack : bound.bound - slack) : null;
    const mark = document.createElement("span");
    mark.className = satisfied ? "satisfied" : "violated";
    mark.textContent = satisfied ? "✓ satisfied" : "✗ violated";
    at(`bound-${index}`).replaceChildren(`${number(value)} `, mark);
  });
}

let waiting = null;

function move() {
  const place = Number(input.value);
  const rates = ratesAt(place);
  const { positions, values, start } = part();
  const change = number(values[place] - values[start], 3, true);
  at("position").textContent = position(positions[place]);
  at("value").textContent = number(values[place]);
  at("change").textContent = place === start ? "the model's rule" : `${change} compared to the model's rule`;
  at("precision").textContent = number(rates.precision);
  at("recall").textContent = number(rates.recall);
  at("predicted").textContent = count(rates.predicted);
  at("focus").textContent = best.classes[focus()];
  input.setAttribute("aria-valuetext", `${position(positions[place])}: ${best.metric} ${number(values[place])}, `
    + `precision ${number(rates.precision)}, recall ${number(rates.recall)}`);
  showMatrix(matrixAt(place));
  showBounds(place);
  if (!waiting) waiting = requestAnimationFrame(mark); // at most one drawing per frame
}

function mark() {
  waiting = null;
  const place = Number(input.value);
  const rates = ratesAt(place);
  follow("along", part().positions[place], part().values[place]);
  if (!picker) follow("precision-recall", rates.recall, rates.precision);
}

function back() {
  input.value = part().start;
  move();
}

function drawAll() {
  drawComparison();
  drawMatrices();
  drawImportance();
  drawDependences();
  drawLearning();
  drawTraining();
  drawCalibration();
  drawPrecisionRecall(input && !picker ? ratesAt(Number(input.value)) : null);
  if (input) drawAlong(part(), Number(input.value));
}

// Light or dark: the system decides until the button is pressed.
const root = document.documentElement;
const theme = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

function applyTheme() {
  theme.textContent = isDark() ? "Light colours" : "Dark colours";
  drawAll();
}

root.dataset.js = "yes";
theme.hidden = false;
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  applyTheme();
});
system.addEventListener("change", applyTheme);
if (input) {
  input.closest(".control").hidden = false;
  input.addEventListener("input", move);
  at("back").addEventListener("click", back);
  if (picker) {
    picker.addEventListener("change", () => {
      back();
      drawAlong(part(), part().start);
    });
  }
  move();
}

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return; // only the address bar of a phone appeared or disappeared
  width = window.innerWidth;
  drawAll();
});

// Paper is light, and narrower than most screens.
let screenTheme;
window.addEventListener("beforeprint", () => {
  screenTheme = root.dataset.theme;
  root.dataset.theme = "light";
  root.dataset.paper = "yes";
  drawAll();
});
window.addEventListener("afterprint", () => {
  if (screenTheme === undefined) delete root.dataset.theme;
  else root.dataset.theme = screenTheme;
  delete root.dataset.paper;
  drawAll();
});
applyTheme();
