
// Costs in 1,000 rows: the counts are those of the held-out rows, so that every cost is only a sum.
const COSTS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
const { benefit } = facts;
const costOf = (id) => COSTS[Number(document.getElementById(`cost-${id}`).value)];
const money = (value) => (known(value) ? value.toLocaleString("en-US", { maximumFractionDigits: 1, minimumFractionDigits: 1 }) : "–");

function costClass() {
  const one = document.getElementById("cost-class");
  return one ? Number(one.value) : benefit.positive;
}

// The cheapest position of the threshold slider for the class k, and its cost.
function findCheapest(k, miss, alarm, per) {
  const { slider } = models[0] || {};
  if (!slider || slider.kind !== "threshold") return null;
  const costs = slider.matrices.map(([, fp, fn]) => per * (k === 1 ? miss * fn + alarm * fp : miss * fp + alarm * fn));
  const place = costs.indexOf(Math.min(...costs));
  return { threshold: slider.positions[place], cost: costs[place] };
}

function summarizeCosts(costs, cheapest) {
  const [own, ...others] = costs;
  const rivals = others.map((cost, at) => [cost, benefit.methods[at + 1]]).filter(([, one]) => one.role === "tuned");
  let words = `In 1,000 rows the model costs ${money(own)}`;
  rivals.forEach(([cost, one]) => {
    const gap = cost - own;
    const name = `${one.name} with a tuned ${benefit.classes.length === 2 ? "threshold" : "rule"}`;
    words += gap === 0 ? `, as much as ${name}` : `, ${money(Math.abs(gap))} ${gap > 0 ? "less" : "more"} than ${name}`;
  });
  if (!cheapest) return `${words}.`;
  const better = cheapest.cost < own - 1e-9;
  return `${words}. ${better ? `Its cheapest threshold on these rows is ${position(cheapest.threshold)}, with ${money(cheapest.cost)}.`
    : "No other threshold is cheaper on these rows."}`;
}

function showCosts() {
  const k = costClass();
  const [miss, alarm] = [costOf("miss"), costOf("alarm")];
  const per = 1000 / benefit.support.reduce((a, b) => a + b, 0);
  ["miss", "alarm"].forEach((id) => {
    const text = costOf(id).toLocaleString("en-US");
    document.getElementById(`cost-${id}-value`).textContent = text;
    document.getElementById(`cost-${id}`).setAttribute("aria-valuetext", text);
  });
  const costs = benefit.methods.map((one) => per * (miss * one.missed[k] + alarm * one.false_alarms[k]));
  benefit.methods.forEach((one, at) => {
    const cells = document.getElementById("cost-table").tBodies[0].rows[at].querySelectorAll("td");
    const cases = benefit.support[k];
    const texts = [number(cases ? 100 * (1 - one.missed[k] / cases) : null, 1), number(per * one.missed[k], 1),
      number(per * one.false_alarms[k], 1), money(costs[at])];
    texts.forEach((text, place) => { cells[place].textContent = text; });
  });
  document.getElementById("cost-caption").textContent = `In 1,000 rows, of which ${number(per * benefit.support[k], 1)} are “${benefit.classes[k]}”`;
  document.getElementById("cost-summary").textContent = summarizeCosts(costs, findCheapest(k, miss, alarm, per));
}

if (benefit) {
  ["miss", "alarm", "class"].forEach((id) => {
    const one = document.getElementById(`cost-${id}`);
    if (one) one.addEventListener("input", showCosts);
  });
  document.getElementById("cost-miss").closest(".control").hidden = false;
  showCosts();
}
