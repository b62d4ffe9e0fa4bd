"""Pages opened in a real browser: what goes wrong there, and how wide they are."""

import contextlib
import os
import shutil

import pytest

PHONE = {"width": 375, "height": 812, "deviceScaleFactor": 2, "mobile": True}


def absent(what):
    """Something a test needs is not here: it is skipped, and fails where all of it must be."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{what} not installed")


def programs():
    """The browser and its driver."""
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in found:
        absent("Debian's chromium and chromium-driver are")
    return found


@pytest.fixture(scope="module")
def browser():
    chromium, driver = programs()
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--window-size=1280,1000",
    ):  # fmt: skip
        options.add_argument(flag)
    service = webdriver.ChromeService(driver)
    # A driver that ends before it answers would be an error; it is ended by a signal anyway.
    service.send_remote_shutdown_command = lambda: None
    with webdriver.Chrome(options, service) as window:
        window.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LISTENER})
        yield window


# The browser's own log is read late and out of order; a listener set before the page's first script
# has heard everything by the time the page is open.
LISTENER = """
window.complaints = [];
const complain = (what) => window.complaints.push(String(what));
for (const level of ["warn", "error"]) {
  const say = console[level];
  console[level] = (...words) => { complain(words.join(" ")); say.apply(console, words); };
}
addEventListener("error", (event) => complain(event.message || event.target.outerHTML), true);
addEventListener("unhandledrejection", (event) => complain(event.reason));
"""


def opened(browser, path):
    """What went wrong while the page opened: warnings, errors, files that were not found."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.support.wait import WebDriverWait

    address = path.resolve().as_uri()
    browser.get(address)  # on a busy machine it comes back before the page is whole, or even there
    whole = (
        "return location.href === arguments[0] && document.readyState === 'complete'"
        " && Array.isArray(window.complaints)"
    )
    patient = WebDriverWait(browser, timeout=60, ignored_exceptions=[WebDriverException])
    patient.until(lambda window: window.execute_script(whole, address))
    # What the page has put off until it was whole comes first.
    return browser.execute_async_script(
        "const done = arguments[0]; setTimeout(() => done(window.complaints), 0)"
    )


@contextlib.contextmanager
def a_phone(browser):
    """The window as wide as a phone."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextlib.contextmanager
def in_colours(browser, scheme):
    """As a reader sees it who prefers "light" or "dark"."""
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wanted})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def page_width(browser):
    return browser.execute_script("return document.documentElement.scrollWidth")


# What is asked of others: anything but the file's own folder and what is in the page itself.
REQUESTS = """
return performance.getEntriesByType("resource").map((entry) => entry.name)
  .filter((name) => !/^(data|file|blob):/.test(name));
"""

# Text whose contrast with the ground behind it is below AA, by WCAG's formula; what is hidden, in a
# drawing or over a picture is not looked at.
CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const parse = (colour) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3]));
const light = (c) => {
  const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  const layers = [];
  for (let one = element; one; one = one.parentElement)
    layers.unshift(parse(getComputedStyle(one).backgroundColor));
  return layers.reduce((below, top) => over(top, below), parse(arguments[0]).slice(0, 3));
};
const poor = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const box = element.getBoundingClientRect();
  if (!own || !box.width || !box.height || element.closest("svg, [aria-hidden=true]")) continue;
  const style = getComputedStyle(element), below = ground(element);
  if (style.visibility === "hidden" || style.opacity === "0") continue;
  const text = over(parse(style.color), below);
  const [a, b] = [light(text), light(below)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  if (ratio < (large ? 3 : 4.5))
    poor.push([ratio.toFixed(2), element.tagName, element.className,
               element.textContent.trim().slice(0, 30)].join(" "));
}
return poor;
"""


def poor_contrasts(browser, scheme):
    """Texts that are hard to read, with their contrast."""
    return browser.execute_script(CONTRAST, "#121417" if scheme == "dark" else "#fff")


def tab_stops(browser, most=400):
    """Where the Tab key goes, one stop after the other, until it has left the page again.

    Each stop: the element, its tag, and whether its focus can be seen.
    """
    from selenium.webdriver import Keys
    from selenium.webdriver.common.action_chains import ActionChains

    browser.execute_script("document.activeElement.blur(); window.scrollTo(0, 0);")
    stops = []
    for _ in range(most):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        element, tag, seen = browser.execute_script(FOCUSED)
        if tag == "BODY" or (stops and element == stops[0][0]):
            return stops
        stops.append((element, tag, seen))
    raise AssertionError(f"Tab is still on the page after {most} stops")


FOCUSED = """
const one = document.activeElement, box = one.getBoundingClientRect();
const style = getComputedStyle(one);
const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
return [one, one.tagName, outlined && box.width > 0 && box.height > 0];
"""


def read_aloud(browser):
    """What a screen reader has of the page: (role, name, properties) of each node that counts."""
    browser.execute_cdp_cmd("Accessibility.enable", {})
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [
        (
            node["role"]["value"],
            node.get("name", {}).get("value", "").strip(),
            {one["name"]: one["value"].get("value") for one in node.get("properties", ())},
        )
        for node in nodes
        if not node["ignored"]
    ]


# What is nothing to who cannot see it, unless it has a name.
ROLES = "link button image img navigation textbox columnheader rowheader heading checkbox"
NAMED = {*ROLES.split(), "radio", "graphics-document", "DisclosureTriangle"}


def nameless(browser):
    """Roles of what has no name, and headings that leave out a level."""
    found = read_aloud(browser)
    poor = [role for role, name, _ in found if role in NAMED and not name]
    levels = [said["level"] for role, _, said in found if role == "heading"]
    leaps = [f"h{a} before h{b}" for a, b in zip([0, *levels], levels, strict=False) if b > a + 1]
    return poor + leaps


def without_words(browser):
    """Pictures that have no text for who does not see them."""
    return browser.execute_script(
        "return [...document.images].filter((one) => !one.alt.trim()).map((one) => one.outerHTML)"
    )
