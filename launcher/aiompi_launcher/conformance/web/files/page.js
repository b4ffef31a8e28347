"use strict";

const $ = (id) => document.getElementById(id);
const MOST_LINES = 2000;
const VERDICTS = ["pass", "fail", "indeterminate"];
const tests = new Map(); // name -> { item, verdict, details, box }
const groups = new Map(); // name -> { members, all, tally }
let socket = null;
let state = "connecting";

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function ask(request) {
  if (socket !== null && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(request));
}

// What the server tells.

const events = {
  catalogue: showCatalogue,
  state: showState,
  line: ({ text }) => write(text),
  error: ({ text }) => showError(text),
  started: ({ name }) => mark(name, "running", "running"),
  result: ({ result }) => showResult(result),
  step: ({ step }) => showStep(step),
  clear: clear,
};

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/live`);
  socket.addEventListener("open", clear);
  socket.addEventListener("message", (message) => {
    const event = JSON.parse(message.data);
    if (event.event in events) events[event.event](event);
  });
  socket.addEventListener("close", () => {
    $("state").textContent = "not connected; reload the page to go on";
    $("run").disabled = true;
  });
}

function showState(event) {
  state = event.state;
  const words = { idle: "no job", waiting: "waiting for the other side", ready: "ready for tests", running: "running" };
  $("state").textContent = words[state];
  const form = $("setup");
  if (form.dataset.filled === undefined) {
    for (const [name, value] of Object.entries(event.setup)) form.elements[name].value = value;
    form.elements.template.value = event.template;
    form.dataset.filled = "";
  }
  for (const button of form.querySelectorAll("button")) button.disabled = state === "waiting" || state === "running";
  showNext(event);
  count();
}

// What is to be run on the other side is all there is to do while the tests wait for it.
function showNext({ commands, start, starts }) {
  const waits = state === "waiting";
  const which = `start ${start} of ${starts}`;
  document.title = (waits ? `Run ${which} - ` : "") + "IMPI conformance tester";
  document.body.classList.toggle("waits", waits);
  $("next-title").textContent = `Run this on the other side now: ${which}`;
  const more = starts > start ? ` ${starts - start} more to come.` : "";
  $("next-why").textContent = (start > 1 ? "The next test needs another job." : "The tests wait for it.") + more;
  $("command-list").replaceChildren(...commands.map((command) => element("li", {},
    element("code", {}, command),
    element("button", { type: "button", onclick: () => copy(command) }, "Copy"))));
  if (waits && $("next").hidden) {
    $("next").hidden = false;
    $("next").scrollIntoView({ block: "start" });
    $("next").focus({ preventScroll: true });
  }
  $("next").hidden = !waits;
}

function showCatalogue({ scripts, placeholders }) {
  const known = Object.entries(placeholders).flatMap(([name, meaning], index) =>
    [index ? ", " : "", element("code", {}, `{${name}}`), ` ${meaning}`]);
  $("placeholders").replaceChildren("Filled in: ", ...known, ".");
  tests.clear();
  groups.clear();
  const members = Map.groupBy(scripts, (script) => script.group);
  $("groups").replaceChildren(...[...members].map(([group, scripts]) => showGroup(group, scripts)));
  count();
}

function showGroup(name, scripts) {
  const all = element("input", { type: "checkbox", "aria-label": `all of ${name}` });
  const tally = element("span", { class: "tally" });
  const group = { members: scripts.map((script) => script.name), all, tally };
  all.addEventListener("change", () => {
    for (const member of group.members) tests.get(member).box.checked = all.checked;
    count();
  });
  groups.set(name, group);
  const list = element("ul", { class: "tests" }, ...scripts.map(showTest));
  const summary = element("summary", {}, all, element("strong", {}, name), tally, `${scripts.length} tests`);
  return element("details", { "data-group": name }, summary, list);
}

function numbers(names) {
  const found = names.map((name) => tests.get(name).verdict.textContent);
  return VERDICTS.map((verdict) => [verdict, found.filter((other) => other === verdict).length])
    .filter(([, number]) => number > 0)
    .map(([verdict, number]) => element("span", { class: verdict }, `${number} ${verdict}`));
}

function total() {
  for (const { members, tally } of groups.values()) tally.replaceChildren(...numbers(members));
  $("tally").replaceChildren(...numbers([...tests.keys()]));
}

function showTest(script) {
  const box = element("input", { type: "checkbox", "aria-label": `select ${script.name}`, onchange: count });
  const short = script.name.split("/")[1];
  const name = element("button", { type: "button", class: "plain", onclick: () => showSource(script) }, short);
  const verdict = element("span", { class: "verdict" }, "not run");
  const details = element("button", { type: "button", class: "plain", hidden: true }, "details");
  const item = element("li", { "data-test": script.name },
    box, name, verdict, element("small", {}, script.description), details);
  tests.set(script.name, { item, verdict, details, box });
  return item;
}

function mark(name, kind, word) {
  const test = tests.get(name);
  if (test === undefined) return;
  test.item.className = kind;
  test.verdict.textContent = word;
  total();
}

function showResult(result) {
  mark(result.name, result.verdict, result.verdict);
  list(result);
  const test = tests.get(result.name);
  if (test === undefined) return;
  const details = element("button", { type: "button", class: "plain", onclick: () => showDetails(result) }, "details");
  details.hidden = result.verdict === "pass" && result.deviations.length === 0;
  test.details.replaceWith(details);
  test.details = details;
}

// Failures first; what has passed is folded. A test that is run again has its last result.
function list(result) {
  for (const item of document.querySelectorAll(".results > li")) if (item.dataset.result === result.name) item.remove();
  const lists = { fail: $("failed"), indeterminate: $("indeterminate"), pass: $("passed") };
  const parts = [element("span", { class: `verdict ${result.verdict}` }, result.verdict), " ",
    element("strong", {}, result.name), " ", result.reason, " "];
  if (result.verdict !== "pass" || result.deviations.length) {
    parts.push(element("button", { type: "button", class: "plain", onclick: () => showDetails(result) }, "details"));
  }
  lists[result.verdict].append(element("li", { class: result.verdict, "data-result": result.name }, ...parts));
  foldPassed();
}

function foldPassed() {
  const number = $("passed").childElementCount;
  $("passed-box").hidden = number === 0;
  $("passed-title").textContent = `${number} passed`;
}

function showStep(step) {
  write(step.text);
  if (step.data) write("    " + words(step.data).join(" "));
  for (const deviation of step.deviations) write(`    ${deviation.severity.toUpperCase()} ${deviation.problem} (${deviation.rule})`);
}

function showError(text) {
  $("error").hidden = false;
  $("error").textContent = text;
}

// Lines of ranks that say the same are folded, and verdicts have their colours.
function write(text) {
  const log = $("log");
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 5;
  const [, said] = /^rank \d+: (.*)$/.exec(text) ?? [];
  const last = log.lastElementChild;
  if (said !== undefined && last?.dataset.said === said) {
    last.append(text + "\n");
    last.dataset.ranks = Number(last.dataset.ranks) + 1;
    last.firstChild.textContent = `${last.dataset.ranks} ranks: ${said}`;
  } else if (said !== undefined) {
    const bad = /fail/i.test(said);
    log.append(element("details", { "data-said": said, "data-ranks": 1, class: bad ? "fail" : "", open: bad },
      element("summary", {}, text), text + "\n"));
  } else {
    const verdict = VERDICTS.find((word) => text.startsWith(word.toUpperCase() + " "));
    log.append(element("span", { class: verdict ?? "" }, text + "\n"));
  }
  while (log.childNodes.length > MOST_LINES) log.firstChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function clear() {
  $("log").textContent = "";
  for (const item of document.querySelectorAll(".results > li")) item.remove();
  foldPassed();
  $("error").hidden = true;
  for (const [name, test] of tests) {
    mark(name, "", "not run");
    test.details.hidden = true;
  }
}

// Dialogs.

function open(title, ...content) {
  const parts = title.split("/").flatMap((part, index) => (index ? ["/", element("wbr"), part] : [part]));
  $("dialog-title").replaceChildren(...parts); // long names break behind the group
  $("dialog-body").replaceChildren(...content);
  $("dialog").showModal();
}

async function showSource(script) {
  const response = await fetch(`script/${script.name}`);
  const source = await response.text();
  open(script.name, element("p", {}, `Checks ${script.rules.join(", ")}.`), element("pre", {}, source));
}

function words(hex) {
  return hex.match(/.{1,8}/g) ?? [];
}

function bytes(hex, other) {
  const there = words(other ?? "");
  const node = element("p", { class: "hex" });
  words(hex).forEach((word, index) => {
    node.append(index % 4 ? " " : `${index ? "\n" : ""}${String(index * 4).padStart(4)}  `);
    node.append(other !== null && word !== there[index] ? element("mark", {}, word) : word);
  });
  return node;
}

function showDeviation(deviation) {
  const columns = [["Expected", deviation.expected, deviation.actual], ["Actual", deviation.actual, deviation.expected]];
  return element("div", { class: `deviation ${deviation.severity}` },
    element("strong", {}, deviation.severity), ` ${deviation.problem} (rule ${deviation.rule}, section ${deviation.section})`,
    element("div", { class: "beside" }, ...columns.filter(([, hex]) => hex !== null).map(([name, hex, other]) =>
      element("div", {}, element("h4", {}, name), bytes(hex, other)))));
}

function showDetails(result) {
  const trace = element("ol", { class: "trace" }, ...result.steps.map((step) => element("li", {},
    element("code", {}, step.text), ...step.deviations.map(showDeviation))));
  open(`${result.name}: ${result.verdict}`,
    element("p", {}, result.reason),
    ...result.deviations.map(showDeviation),
    element("h3", {}, "Reports"), element("pre", {}, result.reports.join("\n") || "none"),
    element("h3", {}, "Packets and commands, in order"), trace);
}

// What a person does.

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    showError("The browser does not let this page copy: select the line by hand.");
  }
}

function selected() {
  return [...tests].filter(([, test]) => test.box.checked).map(([name]) => name);
}

function count() {
  const number = selected().length;
  $("count").textContent = `${number} of ${tests.size} selected`;
  for (const { members, all } of groups.values()) {
    const checked = members.filter((name) => tests.get(name).box.checked).length;
    all.checked = checked === members.length;
    all.indeterminate = checked > 0 && !all.checked;
  }
  $("run").disabled = number === 0 || state !== "ready";
}

function selectAll(checked) {
  for (const { box } of tests.values()) box.checked = checked;
  count();
}

$("setup").addEventListener("submit", (event) => {
  event.preventDefault();
  $("error").hidden = true;
  const form = event.target;
  const setup = { server: form.elements.server.value, key: form.elements.key.value };
  for (const name of ["clients", "hosts", "procs", "first", "iut_clients", "iut_procs"]) {
    setup[name] = Number(form.elements[name].value);
  }
  const startup_only = event.submitter.value === "startup";
  ask({ action: "start", setup, template: form.elements.template.value, startup_only });
});
$("run").addEventListener("click", () => {
  $("error").hidden = true;
  ask({ action: "run", tests: selected() });
});
$("all").addEventListener("click", () => selectAll(true));
$("none").addEventListener("click", () => selectAll(false));
$("clear").addEventListener("click", () => ask({ action: "clear" }));
$("finish").addEventListener("click", () => ask({ action: "finish" }));
$("stop").addEventListener("click", () => ask({ action: "stop" }));
$("close").addEventListener("click", () => $("dialog").close());
connect();
