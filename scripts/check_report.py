#!/usr/bin/python3
"""Checks the web pages of `accrue bench memory --report` and `accrue report` in a real browser,
headless Chromium.

    scripts/check_report.py --program build/release/apps/accrue
    scripts/check_report.py --page report.html --pictures DIR
    scripts/check_report.py --available

Writes a small page of each kind (or takes the page given), opens it, and expects an empty console,
no loaded resources, every chart drawn, and the figures as text, in light and dark, on paper and on
a phone. Needs Debian's chromium-driver, python3-selenium and libjs-chart.js
(scripts/setup.sh --tests); --available says what is missing.
"""

import argparse
import base64
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

CHART_LIBRARY = pathlib.Path("/usr/share/javascript/chart.js/chart.min.js")
BENCH = ("bench", "memory", "--model", "mlp-small", "--effective-batch", "16,32",
         "--micro-batches", "4,8", "--ways", "fused,separate", "--steps", "2", "--rounds", "1",
         "--device", "cpu", "--threads", "1")

TRAIN = ("train", "--model", "mlp-small", "--steps", "12", "--device", "cpu", "--threads", "1")
FONT = ("font", "train", "--image-size", "32", "--width", "0.125", "--steps", "4", "--micro-batch",
        "4", "--effective-batch", "8", "--sample-every", "2", "--device", "cpu", "--threads", "1")
# Log directories, whose names must not end the script that holds them either, and their commands.
RUNS = {"plain": TRAIN,
        "<script><!--": (*TRAIN, "--lr", "0.01", "--ema", "0.9", "--noise-scale",
                         "--eval-every", "4"),
        "drawn": FONT}

# For each canvas: its size, how much of it is painted, how many colours it has, and its name.
CANVASES = """
return [...document.querySelectorAll('canvas')].map((canvas) => {
  const {width, height} = canvas;
  const copy = new OffscreenCanvas(width, height).getContext('2d', {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  const pixels = new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer);
  const painted = pixels.filter((pixel) => pixel !== 0).length;
  return {width, height, painted: painted / pixels.length, colours: new Set(pixels).size,
    sum: pixels.reduce((sum, pixel) => (sum * 31 + pixel) % 4294967296, 0),
    label: canvas.getAttribute('aria-label') ?? ''};
});
"""

# Contrast of the text on the page, as the W3C's accessibility guidelines define it.
CONTRAST = """
const luminance = (element, property) => {
  const [r, g, b] = getComputedStyle(element)[property].match(/\\d+/g).map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const paper = luminance(document.body, 'backgroundColor');
return [...document.querySelectorAll('h1, p, td, th, caption, dt, dd')].map((element) => {
  const ink = luminance(element, 'color');
  return (Math.max(paper, ink) + 0.05) / (Math.min(paper, ink) + 0.05);
}).reduce((least, contrast) => Math.min(least, contrast));
"""


def missing():
    """The first requirement that is missing, or None."""
    if importlib.util.find_spec("selenium") is None:
        return "no python3-selenium"
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        return "no chromium, or no chromium-driver"
    return None if CHART_LIBRARY.exists() else "no libjs-chart.js"


def start_browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


class Check:
    """The page in one browser. Prints every failure; the page passes if there is none."""

    def __init__(self, browser, name, pictures):
        self.browser, self.name, self.pictures = browser, name, pictures
        self.failures = 0

    def expect(self, ok, what):
        if not ok:
            print(f"FAILED: {what}")
            self.failures += 1

    def emulate(self, **metrics):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"deviceScaleFactor": 1, "mobile": False, **metrics})
        self.settle()

    def use_scheme(self, scheme):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.settle()

    def settle(self):
        """Waits until the page has heard of a change and redrawn: a browser tells its listeners
        when it renders the next frame, and the charts answer a resize one frame later."""
        self.browser.execute_async_script(
            "const done = arguments[0]; let frames = 3;"
            "const frame = () => frames-- > 0 ? requestAnimationFrame(frame) : done(); frame();")

    def picture(self, name):
        if not self.pictures:
            return
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot",
                                            {"format": "png", "captureBeyondViewport": True})
        (self.pictures / f"{self.name}-{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def charts(self, where):
        canvases = self.browser.execute_script(CANVASES)
        self.expect(canvases, f"{where}: there are charts")
        for canvas in canvases:
            name = f"{where}: '{canvas['label'][:40]}'"
            # Text, axes and at least two data colours, smoothed at their edges.
            self.expect(canvas["colours"] > 20 and canvas["painted"] > 0.02,
                        f"{name} is drawn, not {canvas}")
            self.expect(len(canvas["label"]) > 20, f"{name} says what it shows")
        empty = self.browser.execute_script(
            "return charts.filter(({drawn}) =>"
            " !drawn.data.datasets.some(({data}) => data.length > 0)).length")
        self.expect(empty == 0, f"{where}: {empty} charts show nothing")
        return canvases

    def fits(self, where):
        width, room = self.browser.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth]")
        self.expect(width <= room, f"{where}: {width} pixels wide fit into {room}")

    def schemes(self):
        seen = {}
        for scheme in ("light", "dark"):
            self.use_scheme(scheme)
            seen[scheme] = self.charts(scheme)
            contrast = self.browser.execute_script(CONTRAST)
            self.expect(contrast >= 4.5, f"{scheme}: text has a contrast of {contrast:.1f}")
            self.picture(scheme)
        self.expect(all(a["sum"] != b["sum"] for a, b in zip(seen["light"], seen["dark"])),
                    "the charts follow the reader's theme")

    def tables(self):
        """The number of rows of each table."""
        nameless = self.browser.execute_script(
            "return document.querySelectorAll('table:not(:has(caption)), th:not([scope])').length")
        self.expect(nameless == 0, "tables have captions, their heads a scope")
        return self.browser.execute_script(
            "return [...document.querySelectorAll('tbody')].map((body) => body.rows.length)")

    def text(self, result):
        wide = self.browser.execute_script(
            "return [...document.querySelectorAll('.wide')]"
            ".filter((table) => table.scrollWidth > table.clientWidth)"
            ".map((table) => table.getAttribute('aria-label'))")
        self.expect(not wide, f"tables fit into the page: {wide}")
        rows = self.tables()
        if "runs" in result:
            self.runs_text(result["runs"], rows)
        else:
            timelines = [timeline for pair in result["timelines"] for timeline in pair]
            self.expect(sum(rows) == 2 * len(result["rows"]) +
                        sum(len(timeline["phases"]) for timeline in timelines),
                        f"the tables have every number: {rows}")
            self.expect(self.browser.title.startswith("Memory of"), "the page has a title")
        command = self.browser.execute_script("return document.querySelector('code').textContent")
        self.expect(command == result["command"], f"the command is shown, not {command}")

    def runs_text(self, runs, rows):
        self.expect(rows[:2] == [len(runs)] * 2, f"a row of results and of memory a run: {rows}")
        self.expect(self.browser.title.startswith(f"{len(runs)} runs"), "the page has a title")
        text = self.browser.execute_script("return document.body.textContent")
        for run in runs:
            score = run["test"].get("accuracy", run["test"].get("ssim"))
            for part in (run["label"], f"{score:.4g}", "--ema"):
                self.expect(part in text, f"{part} of {run['label']} is in the text")
        drawn = self.browser.execute_script(
            "return [...document.images].filter((image) => image.naturalWidth > 0).length")
        expected = sum("sheet" in run for run in runs)
        self.expect(drawn == expected, f"{drawn} of {expected} sheets are shown")

    def folding(self):
        """In all charts of memory the data set is folded away until the reader clicks on it."""
        shown = ("return charts.map(({drawn}) => drawn.data.datasets.findIndex(({category, hidden})"
                 " => category === 'data' && !hidden)).filter((index) => index >= 0).length")
        self.expect(self.browser.execute_script(shown) == 0, "the data set is folded away")
        self.browser.execute_script(
            "const {drawn} = charts.find(({drawn}) => drawn.data.datasets.some("
            "({category}) => category === 'data'));"
            "drawn.legend.options.onClick(null, drawn.legend.legendItems.at(-1), drawn.legend);")
        self.settle()
        self.expect(self.browser.execute_script(shown) > 0, "a click folds the data set out")

    def paper(self):
        self.use_scheme("dark")
        pdf = self.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
        document = base64.b64decode(pdf["data"])
        self.expect(document.startswith(b"%PDF") and len(document) > 20000, "the page prints")
        if self.pictures:
            (self.pictures / f"{self.name}-paper.pdf").write_bytes(document)
        self.charts("after printing")

    def quiet(self):
        loaded = self.browser.execute_script(
            "return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.expect(not loaded, f"nothing is loaded: {loaded}")
        messages = [entry["message"] for entry in self.browser.get_log("browser")]
        self.expect(not messages, f"the console is empty: {messages}")


def check_page(browser, page, pictures):
    check = Check(browser, page.stem, pictures)
    check.emulate(width=1200, height=900)
    browser.get(page.resolve().as_uri())
    result = json.loads(browser.execute_script(
        "return document.getElementById('data').textContent"))
    check.schemes()
    check.fits("wide")
    check.text(result)
    check.folding()
    check.paper()
    check.use_scheme("light")
    check.emulate(width=375, height=800)
    check.charts("phone")
    check.fits("phone")
    check.picture("phone")
    check.quiet()
    return check.failures


def write_pages(program, folder):
    memory, runs = folder / "memory.html", folder / "runs.html"
    # The name of this table must not end the script that holds the page's data.
    table = f"{folder}/</script><b>"
    pathlib.Path(table).parent.mkdir()
    subprocess.run([program, *BENCH, "--csv", table, "--report", memory], check=True)
    logs = []
    for name, options in RUNS.items():
        logs.append(folder / name)
        subprocess.run([program, *options, "--log-dir", logs[-1]], check=True,
                       stdout=subprocess.DEVNULL)
    subprocess.run([program, "report", *logs, "--output", runs], check=True)
    return [memory, runs]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path, help="check this page, write none")
    parser.add_argument("--pictures", type=pathlib.Path, help="keep screenshots and a PDF there")
    parser.add_argument("--available", action="store_true",
                        help="only say what is missing; 1 if anything is")
    options = parser.parse_args()
    lacking = missing()
    if options.available or lacking:
        print(lacking or "everything is there")
        return lacking is not None
    if not options.program and not options.page:
        parser.error("expected --program or --page")
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    browser = start_browser()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            pages = [options.page] if options.page else write_pages(options.program.resolve(),
                                                                    pathlib.Path(scratch))
            failures = sum(check_page(browser, page, options.pictures) for page in pages)
    finally:
        browser.quit()
    print(f"{failures} failed" if failures else "the reports are fine")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
