"""The service's page, in a browser."""

import json
import os
from pathlib import Path

import pytest

from workloads import chromium
from workloads.service_process import SANDBOX, SECONDS, Service, layers, long_model, until

pytestmark = pytest.mark.skipif(chromium.program() is None, reason="chromium is not installed: "
                                                                   "scripts/setup.sh --tests")
httpx = pytest.importorskip("httpx", reason="httpx is not installed: scripts/setup.sh --tests")
TAB, ENTER, ESCAPE = ("Tab", 9), ("Enter", 13), ("Escape", 27)
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service") / "data", *SANDBOX).start()
    yield made
    made.stop()


@pytest.fixture(scope="module", params=["light", "dark"])
def page(tmp_path_factory, request):
    made = chromium.Page(tmp_path_factory.mktemp("chromium"), request.param == "dark")
    made.scheme = request.param
    yield made
    made.close()


def faults(page):
    """What the browser complained of, and what it loaded from elsewhere."""
    found = []
    for event in page.events:
        method, given = event.get("method", ""), event.get("params", {})
        if method == "Runtime.exceptionThrown" or (
                method == "Log.entryAdded" and given["entry"]["source"] == "security"):
            found.append(given)
        if method == "Network.requestWillBeSent" and not given["request"]["url"].startswith(
                ("http://127.0.0.1:", "about:")):
            found.append(given["request"]["url"])
    return found


def focused(page):
    return page.run("document.activeElement.textContent.trim() || document.activeElement.id")


def tab_to(page, wanted):
    for _ in range(60):
        if focused(page) == wanted:
            return
        page.press(*TAB)
    raise AssertionError(f"no way to {wanted!r} by the keyboard")


def test_by_the_keyboard_alone(page, service, client):
    """Sign in, look for a job, read its log while it runs, cancel it, go back."""
    job = f"runs-{page.scheme}"
    client.submit(long_model(), ["lavapipe"], name="page/long", job_id=job)
    page.go(service.url)
    page.until("document.activeElement.id === 'key'")
    page.write("tv_000000000000_" + "a" * 43)
    page.press(*ENTER)
    page.until("document.querySelector('#fault').textContent.includes('API key')")
    page.until("document.activeElement.id === 'key'")
    page.write(service.key)
    page.press(*ENTER)
    page.until(f"document.body.innerText.includes('{job}')")
    assert service.key not in page.run("location.href + document.documentElement.outerHTML")
    tab_to(page, job)
    page.press(*ENTER)
    page.until("document.querySelector('#log').textContent.includes('reading the model')")
    page.until("document.querySelector('#job .state').textContent === 'INPROGRESS'")
    picture(page, "job")
    tab_to(page, "Cancel")
    page.press(*ENTER)
    page.until("document.querySelector('#job .state').textContent === 'STOPPED'")
    page.press(*ESCAPE)
    page.until("location.hash === '#jobs' && !document.querySelector('#jobs').hidden")
    assert client.wait(job, SECONDS)["state"] == "STOPPED"
    assert faults(page) == []


def test_each_task_and_its_own_reasons(page, service, client):
    """A job of two tasks for one device, and one job's reasons after another's."""
    client.submit(layers([8, 5])[0], ["lavapipe"], name="page/tuned",
                  job_id=f"tuned-{page.scheme}", options={"optimization_level": 1})
    jobs = [client.submit(model, ["lavapipe"], name="page/bad",
                          options={"optimization_level": 0} | options)["id"]
            for model, options in ((b"no model", {}),
                                   (layers([8, 5])[0], {"inputs": {"absent": [[1, 1, 1]]}}))]
    reasons = [client.wait(job, SECONDS)["tasks"][0]["reasons"] for job in jobs]
    assert [len(lines) for lines in reasons] == [1, 1] and reasons[0] != reasons[1]
    client.wait(f"tuned-{page.scheme}", SECONDS)
    page.go("about:blank")
    page.go(f"{service.url}/#key={service.key}")
    page.until("document.querySelector('#live').textContent.startsWith('live')")
    for job, (line,) in zip(jobs, reasons, strict=True):
        page.run(f"location.hash = '#job/{job}'")
        page.until(f"document.querySelector('#reasons').textContent === "
                   f"{json.dumps('lavapipe: ' + line)}")
    page.run(f"location.hash = '#job/tuned-{page.scheme}'")
    page.until("document.querySelector('#reasons').hidden")
    page.until("[...document.querySelectorAll('#job tbody tr')].map(r => r.cells[2].innerText)"
               ".join() === '0,1'")
    assert faults(page) == []


def test_the_reference(page, service):
    page.go(f"{service.url}/docs")
    page.until("document.querySelectorAll('h3').length > 30")
    picture(page, "docs")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert faults(page) == []


def picture(page, name):
    """For people: TV_PICTURES=DIR keeps it."""
    if folder := os.environ.get("TV_PICTURES"):
        page.picture(Path(folder) / f"{name}-{page.scheme}.png")


def test_it_is_live_and_shows_text_as_text(page, service, client):
    page.go("about:blank")
    page.go(f"{service.url}/#key={service.key}")
    page.until("document.querySelector('#live').textContent.startsWith('live')")
    assert page.run("location.hash") == "#jobs", "the key does not stay in the address"
    name = f"live-{page.scheme}"
    job = client.submit(layers([8, 5])[0], ["lavapipe"], name="page/net", job_id=name,
                        options={"optimization_level": 0}, notify="https://localhost/x")
    row = f"[...document.querySelectorAll('#jobs tr')].find(r => r.dataset.key === '{name}')"
    page.until(f"{row}?.innerText.includes('COMPLETED')")  # nothing was reloaded
    picture(page, "jobs")
    bad = client.submit(b"no model" + EVIL.encode(), ["lavapipe"], name="page/bad",
                        options={"inputs": {EVIL: [[1, 1, 1]]}})
    assert client.wait(bad["id"], SECONDS)["state"] == "FAILED"
    page.run(f"location.hash = '#job/{bad['id']}'")
    page.until("!document.querySelector('#reasons').hidden")
    page.until("document.querySelector('#log').textContent.includes('FAILED after')")
    assert page.run("document.querySelectorAll('img').length") == 0
    digest = client.wait(job["id"], SECONDS)["tasks"][0]["artifact"]
    until(lambda: client.details(name)["webhook"]["attempts"], "an attempt at the webhook")
    for view, says in (("artifacts", digest), ("devices", "llvmpipe"),
                       ("webhooks", "private address")):
        page.run(f"location.hash = '#{view}'")
        page.until(f"document.querySelector('#{view}').innerText.includes('{says}')")
        assert page.run("document.querySelectorAll('section:not([hidden])').length") == 1
        assert page.run("document.querySelector('nav [aria-current]').hash") == f"#{view}"
        picture(page, view)
    page.run("document.querySelector('#leave').click()")
    page.until("!document.querySelector('#enter').hidden")
    assert digest not in page.run("document.documentElement.outerHTML")
    assert page.run("sessionStorage.length + localStorage.length + document.cookie.length") == 0
    assert faults(page) == []


def test_who_signs_out_sees_nothing_more(page, service, client):
    """The log that was followed ends, and answers that were on their way are dropped."""
    name = f"out-{page.scheme}"
    client.submit(long_model(), ["lavapipe"], name="page/long", job_id=name)
    page.go("about:blank")
    page.go(f"{service.url}/#key={service.key}")
    page.until(f"document.body.innerText.includes('{name}')")
    # The signals of what is asked for; what answers /details is held back when `held` is there.
    page.run("""(() => {
      const real = fetch;
      window.asked = [];
      window.fetch = async (path, given) => {
        asked.push([path, given.signal]);
        const answer = await real(path, given);
        if (window.held && !path.includes("logs")) await held;
        return answer;
      };
    })()""")
    page.run(f"location.hash = '#job/{name}'")
    page.until("document.querySelector('#log').textContent.includes('reading the model')")
    page.run("window.held = new Promise(go => { window.release = go; }); 0")
    page.run("window.before = asked.length")
    page.until("asked.length > before")
    page.run("document.querySelector('#leave').click()")
    assert page.run("asked.filter(([path]) => path.includes('logs')).every("
                    "([, signal]) => signal.aborted)")
    page.run("window.before = asked.length; release()")
    page.run("new Promise(go => setTimeout(go, 300))")
    assert name not in page.run("document.documentElement.outerHTML")
    assert page.run("asked.length === before"), "nothing is asked for without a key"
    assert page.run("sessionStorage.length") == 0
    client.cancel(name)
    client.wait(name, SECONDS)


def test_late_answers_of_another_view_are_dropped(page, service):
    page.go("about:blank")
    page.go(f"{service.url}/#key={service.key}")
    page.until("document.querySelector('#live').textContent.startsWith('live')")
    page.run("""(() => {
      const real = fetch;
      window.held = new Promise(go => { window.release = go; });
      window.fetch = async (path, given) => {
        const answer = await real(path, given);
        if (path.includes("devices")) { window.came = true; await held; }
        return answer;
      };
    })()""")
    page.run("document.querySelector('#devices tbody').replaceChildren()")
    page.run("location.hash = '#devices'")
    page.until("window.came")
    page.run("location.hash = '#webhooks'")
    page.until("!document.querySelector('#webhooks').hidden")
    page.run("release()")
    page.run("new Promise(go => setTimeout(go, 300))")
    assert page.run("document.querySelectorAll('#devices tbody tr').length") == 0
    page.run("location.hash = '#devices'")
    page.until("document.querySelectorAll('#devices tbody tr').length > 0")
    assert faults(page) == []


def test_a_key_in_the_address_of_an_open_tab_is_taken(page, service):
    page.go("about:blank")
    page.go(f"{service.url}/#devices")
    page.run("sessionStorage.clear(); location.hash = '#key=tv_000000000000_" + "a" * 43 + "'")
    page.until("document.querySelector('#fault').textContent.includes('API key')")
    page.run(f"location.hash = '#key={service.key}'")
    page.until("document.querySelector('#live').textContent.startsWith('live')")
    assert page.run("location.hash") == "#jobs"
    assert not [entry["url"] for entry in page.ask("Page.getNavigationHistory")["entries"]
                if "key=" in entry["url"]]
    assert faults(page) == []


def test_the_focus_stays_where_it_is(page, service, client):
    """While rows come and change."""
    name = f"focus-{page.scheme}"
    for i in range(2):
        client.submit(layers([8, 5])[0], ["lavapipe"], name="page/net", job_id=f"{name}-{i}",
                      options={"optimization_level": 0})
        if i == 0:
            page.go("about:blank")
            page.go(f"{service.url}/#key={service.key}")
            page.until(f"document.body.innerText.includes('{name}-0')")
            page.run(f"[...document.querySelectorAll('#jobs a')].find(a => "
                     f"a.textContent === '{name}-0').focus()")
    page.until(f"document.body.innerText.includes('{name}-1')")
    assert focused(page) == f"{name}-0"
    client.wait(f"{name}-1", SECONDS)


def test_text_can_be_read(page, service):
    """Contrast of at least 4.5 (WCAG 2.2, AA) of everything that is shown, and labels."""
    page.go("about:blank")
    page.go(f"{service.url}/#key={service.key}")
    page.until("document.querySelectorAll('#jobs tbody tr').length > 0")
    low = page.run("""(() => {
      const parse = text => text.match(/[\\d.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(
        v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const back = element => {
        for (let e = element; e; e = e.parentElement) {
          const colour = parse(getComputedStyle(e).backgroundColor);
          if (colour.length < 4 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
      };
      const found = [];
      for (const element of document.querySelectorAll('body *')) {
        if (!element.checkVisibility() || ![...element.childNodes].some(
            n => n.nodeType === 3 && n.textContent.trim())) continue;
        const pair = [light(parse(getComputedStyle(element).color)), light(back(element))];
        const contrast = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (contrast < 4.5) found.push([element.tagName, element.textContent, contrast]);
      }
      return found;
    })()""")
    assert low == []
    unnamed = page.run("[...document.querySelectorAll('input, select')].filter("
                       "e => !e.labels.length).length")
    assert unnamed == 0


def test_nothing_of_it_may_load_from_elsewhere_or_be_framed(service):
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"),
                       ("/page.js", "text/javascript")):
        answer = httpx.get(service.url + path, trust_env=False)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert "://" not in answer.text and "innerHTML" not in answer.text
    for path in ("/redoc", "/docs/oauth2-redirect"):
        assert httpx.get(service.url + path, trust_env=False).status_code == 404
