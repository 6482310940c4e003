// The service's page: asks the HTTP interface, and shows what it says as text, never as HTML.

const POLL_MS = 2000, LONGEST_MS = 60000, LONGEST_LOG = 1e6, PAGE = 100;
const find = (selector, from = document) => from.querySelector(selector);
const decoded = text => { try { return decodeURIComponent(text); } catch { return text; } };

// A key in the address is taken, and neither shown nor kept in the history.
function takeKey() {
  const tried = decoded((location.hash.match(/^#key=(.+)/) || [])[1] || "");
  if (!tried) return;
  forget();
  sessionStorage.setItem("key", tried);
  history.replaceState(null, "", "#jobs");
}

// What a key gave to see goes with it.
function forget() {
  sessionStorage.removeItem("key");
  unfollow();
  for (const body of document.querySelectorAll("tbody")) body.replaceChildren();
  for (const part of document.querySelectorAll("#log, #reasons, #job .note, #job h2")) {
    part.textContent = "";
  }
}

class Refused extends Error {}
class Late extends Error {}
let looks = 0, looking = 0;  // views that were asked for; which of them waits for answers

async function ask(path, given = {}) {
  const answer = await fetch(path, {
    ...given, cache: "no-store",
    headers: {Authorization: `Bearer ${sessionStorage.getItem("key")}`}});
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  const message = said.error?.message || `the service answers with status ${answer.status}`;
  throw answer.status === 401 ? new Refused(message) : new Error(message);
}

// For views: one that is no longer looked at ends here, and shows nothing.
async function json(path) {
  const mine = looks;
  const value = await (await ask(path, {signal: AbortSignal.timeout(LONGEST_MS)})).json();
  if (mine !== looks) throw new Late();
  return value;
}

// Times and sizes.
const unbroken = text => text.replaceAll(" ", "\u00a0");
const when = seconds => seconds ? unbroken(new Date(seconds * 1000).toLocaleString()) : "–";
const took = (start, end) => {
  if (!start) return "–";
  const seconds = Math.max((end || Date.now() / 1000) - start, 0);
  return seconds < 90 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds / 60)} min`;
};
function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < 3) { bytes /= 1024; unit++; }
  return unbroken(`${bytes.toFixed(unit ? 1 : 0)} ${units[unit]}`);
}

// A cell is a text or {text, state, link, code}.
function fillCell(cell, value) {
  const {text, state, link, code} = typeof value === "object" ? value : {text: value};
  let holder = cell;
  if (link || state) {
    holder = cell.firstElementChild;
    if (!holder) {
      holder = document.createElement(link ? "a" : "span");
      cell.append(holder);
    }
    if (link) holder.setAttribute("href", link);
    if (state) { holder.className = "state"; holder.dataset.state = text; }
  }
  if (code) cell.className = "code";
  if (holder.textContent !== text) holder.textContent = text;
}

// Rows stay the same elements while their key does, so the focus stays where it is.
function fillTable(section, rows) {
  const body = find("tbody", section);
  const there = new Map([...body.children].map(row => [row.dataset.key, row]));
  const wanted = rows.map(([key, cells]) => {
    let row = there.get(key);
    if (!row) {
      row = document.createElement("tr");
      row.dataset.key = key;
      cells.forEach(() => row.append(document.createElement("td")));
    }
    cells.forEach((cell, i) => fillCell(row.children[i], cell));
    return row;
  });
  if (wanted.length !== body.children.length || wanted.some((row, i) => row !== body.children[i])) {
    const focused = document.activeElement;
    body.replaceChildren(...wanted);
    if (focused && focused !== document.activeElement) focused.focus();
  }
  const empty = find(".empty", section);
  if (empty) empty.hidden = rows.length > 0;
}

let shown = PAGE;
const views = {
  async jobs(section) {
    const state = find("#state").value;
    let jobs = [];
    while (jobs.length < shown) {
      const before = jobs.length ? `&before=${jobs.at(-1).number}` : "";
      const page = (await json(`v1/jobs?limit=${PAGE}${before}${state && `&state=${state}`}`)).jobs;
      jobs = jobs.concat(page);
      if (page.length < PAGE) break;
    }
    find("#more").hidden = jobs.length < shown;
    fillTable(section, jobs.map(job => [job.id, [
      {text: job.id, link: `#job/${encodeURIComponent(job.id)}`}, {text: job.state, state: true},
      job.model, when(job.created), took(job.created, job.ended)]]));
  },
  async job(section, id) {
    const job = await json(`v1/jobs/${encodeURIComponent(id)}`);
    find("h2", section).textContent = job.id;
    find(".state", section).textContent = find(".state", section).dataset.state = job.state;
    const webhook = job.webhook
      ? ` · webhook ${job.webhook.state}, ${job.webhook.attempts} attempts` : "";
    const waits = job.waits_for ? ` · waits for ${job.waits_for}` : "";
    find(".note", section).textContent =
      `Model ${job.model} · ${when(job.created)}${webhook}${waits}`;
    find("#cancel").hidden = Boolean(job.ended) || job.state === "STOPPING";
    fillTable(section, job.tasks.map(task => [`${task.device} ${task.level}`, [
      task.device, {text: task.later && task.state === 'STARTING' ? 'LATER' : task.state,
        state: true}, String(task.level), String(task.attempt),
      took(task.started, task.ended), {text: task.artifact || "–", code: true}]]));
    const reasons = job.tasks.flatMap(task => task.reasons.map(line => `${task.device}: ${line}`));
    const list = find("#reasons");
    list.hidden = !reasons.length;
    if (reasons.join("\n") !== [...list.children].map(item => item.textContent).join("\n")) {
      list.replaceChildren(...reasons.map(line => {
        const item = document.createElement("li");
        item.textContent = line;
        return item;
      }));
    }
    follow(id);
  },
  async artifacts(section) {
    const found = (await json("v1/artifacts?limit=200")).artifacts;
    fillTable(section, found.map(one => [one.manifest_digest, [
      one.model, one.device, one.tuned ? "yes" : "no", size(one.size_bytes), when(one.created),
      one.published_by ? `key ${one.published_by}` : "the service",
      {text: one.engine_digest, code: true}]]));
  },
  async devices(section) {
    const found = (await json("v1/devices")).devices;
    fillTable(section, found.map(one => [one.name, [
      one.name, one.is_here ? "yes" : "no", one.description]]));
  },
  async webhooks(section) {
    const found = (await json("v1/webhooks?limit=200")).webhooks;
    fillTable(section, found.map(one => [one.id, [
      {text: one.job, link: `#job/${encodeURIComponent(one.job)}`}, {text: one.state, state: true},
      String(one.attempts), one.host, one.reason || "–"]]));
  },
};

let following = null;  // {id, stop}

function unfollow() {
  following?.stop.abort();
  following = null;
}

async function follow(id) {
  if (following?.id === id) return;
  unfollow();
  const stop = new AbortController(), log = find("#log");
  following = {id, stop};
  log.textContent = "";
  try {
    const answer = await ask(`v1/jobs/${encodeURIComponent(id)}/logs?follow=true`,
                             {signal: stop.signal});
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const {done, value} = await reader.read();
      if (done || stop.signal.aborted) break;
      const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
      log.append(value);
      if (log.textContent.length > LONGEST_LOG) {
        log.textContent = log.textContent.slice(-LONGEST_LOG / 2);
      }
      if (isAtEnd) log.scrollTop = log.scrollHeight;
    }
  } catch (error) {
    if (!stop.signal.aborted) following = null;  // asked for again with the next look
  }
}

function place() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  return name in views ? [name, decoded(rest.join("/"))] : ["jobs", ""];
}

async function look() {
  const mine = looking = ++looks, [name, argument] = place(), isIn = sessionStorage.getItem("key");
  if (name !== "job") unfollow();
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.hash.slice(1) === (name === "job" ? "jobs" : name);
    isHere ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  find("#enter").hidden = Boolean(isIn);
  find("#leave").hidden = !isIn;
  for (const section of document.querySelectorAll("section")) {
    section.hidden = !isIn || section.id !== name;
  }
  if (!isIn) {
    looking = 0;
    return find("#key").focus();
  }
  try {
    await views[name](find(`section#${name}`), argument);
    if (mine !== looks) return;
    tell("");
    find("#live").textContent = `live · ${new Date().toLocaleTimeString()}`;
  } catch (error) {
    if (mine !== looks) return;
    if (error instanceof Refused) forget();
    tell(error.message);
    find("#live").textContent = "no answer";
    if (error instanceof Refused) look();
  } finally {
    if (mine === looking) looking = 0;
  }
}

function tell(fault) {
  find("#fault").textContent = fault;
  find("#fault").hidden = !fault;
}

find("#enter").addEventListener("submit", event => {
  event.preventDefault();
  sessionStorage.setItem("key", find("#key").value.trim());
  find("#key").value = "";
  look();
});
find("#leave").addEventListener("click", () => {
  forget();
  look();
});
find("#state").addEventListener("change", () => { shown = PAGE; look(); });
find("#more").addEventListener("click", () => { shown += PAGE; look(); });
find("#cancel").addEventListener("click", async () => {
  try {
    await ask(`v1/jobs/${encodeURIComponent(place()[1])}`, {method: "DELETE"});
  } catch (error) {
    return tell(error.message);
  }
  look();
});
addEventListener("hashchange", () => { takeKey(); look(); });
addEventListener("keydown", event => {
  if (event.key === "Escape" && place()[0] === "job") location.hash = "#jobs";
});
setInterval(() => {
  if (!looking && !document.hidden && sessionStorage.getItem("key")) look();
}, POLL_MS);
takeKey();
look();
