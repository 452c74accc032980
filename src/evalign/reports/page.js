
// The slider: every position was counted when the page was made; here it is only looked up.
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

// Precision, recall and rows predicted of the class in focus.
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
  Object.entries(best.constraints || {}).forEach(([name, bound], index) => {
    const slack = part().constraints[name][place];
    const kept = known(slack) && slack >= -1e-9;
    const value = known(slack) ? (bound.sense === ">=" ? bound.bound + slack : bound.bound - slack) : null;
    const mark = document.createElement("span");
    mark.className = kept ? "kept" : "missed";
    mark.textContent = kept ? "✓ kept" : "✗ missed";
    at(`bound-${index}`).replaceChildren(`${number(value)} `, mark);
  });
}

let waiting = null;

function move() {
  const place = Number(input.value);
  const rates = ratesAt(place);
  const { positions, values, chosen } = part();
  const change = place === chosen ? "as chosen" : `${number(values[place] - values[chosen], 3, true)} to the chosen`;
  at("position").textContent = position(positions[place]);
  at("value").textContent = number(values[place]);
  at("change").textContent = change;
  at("precision").textContent = number(rates.precision);
  at("recall").textContent = number(rates.recall);
  at("predicted").textContent = count(rates.predicted);
  at("focus").textContent = best.classes[focus()];
  input.setAttribute("aria-valuetext", `${position(positions[place])}: ${best.metric} ${number(values[place])}, `
    + `precision ${number(rates.precision)}, recall ${number(rates.recall)}`);
  showMatrix(matrixAt(place));
  showBounds(place);
  if (!waiting) waiting = requestAnimationFrame(mark); // however fast it moves, a frame is drawn once
}

function mark() {
  waiting = null;
  const place = Number(input.value);
  const rates = ratesAt(place);
  follow("along", part().positions[place], part().values[place]);
  if (!picker) follow("precision-recall", rates.recall, rates.precision);
}

function back() {
  input.value = part().chosen;
  move();
}

function drawAll() {
  drawComparison();
  drawMatrices();
  drawTraining();
  drawCalibration();
  drawPrecisionRecall(input && !picker ? ratesAt(Number(input.value)) : null);
  if (input) drawAlong(part(), Number(input.value));
}

// Light or dark: as the system is, until the button says otherwise.
const root = document.documentElement;
const theme = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

function dress() {
  theme.textContent = isDark() ? "Light colours" : "Dark colours";
  drawAll();
}

root.dataset.js = "yes";
theme.hidden = false;
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  dress();
});
system.addEventListener("change", dress);
if (input) {
  input.closest(".control").hidden = false;
  input.addEventListener("input", move);
  at("back").addEventListener("click", back);
  if (picker) {
    picker.addEventListener("change", () => {
      back();
      drawAlong(part(), part().chosen);
    });
  }
  move();
}

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return; // a phone's address bar comes and goes
  width = window.innerWidth;
  drawAll();
});

// Paper is light, and narrower than most screens.
let worn;
window.addEventListener("beforeprint", () => {
  worn = root.dataset.theme;
  root.dataset.theme = "light";
  root.dataset.paper = "yes";
  drawAll();
});
window.addEventListener("afterprint", () => {
  if (worn === undefined) delete root.dataset.theme;
  else root.dataset.theme = worn;
  delete root.dataset.paper;
  drawAll();
});
dress();
