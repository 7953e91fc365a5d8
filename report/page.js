'use strict';

// Code that the pages of reports share.

const result = JSON.parse(document.getElementById('data').textContent);
// From the bottom of a stack to its top: constant categories first, except the data set. "untold" is
// memory of a process whose categories are unknown.
const categories = [
  'parameters', 'optimizer', 'gradients', 'activations', 'workspace', 'untold', 'data'];
const categoryName = (category) => category === 'untold' ? 'not told apart' : category;

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Numbers as people read them.

function unitFor(largest) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const power = Math.min(3, Math.max(0, Math.floor(Math.log2(Math.max(1, largest)) / 10)));
  return {name: units[power], bytes: 1024 ** power};
}

function formatBytes(bytes) {
  const unit = unitFor(bytes);
  return unit.bytes === 1 ? `${bytes} B` : `${(bytes / unit.bytes).toFixed(1)} ${unit.name}`;
}

function counted(count, what) {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

// Charts are drawn again when the colours change: by the reader's theme, or for paper.

const charts = [];

function theme() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

function drawCharts() {
  const colour = theme();
  Chart.defaults.color = colour('ink');
  Chart.defaults.borderColor = colour('line');
  Chart.defaults.font.family = 'system-ui, sans-serif';
  for (const chart of charts) {
    chart.drawn?.destroy();
    chart.drawn = new Chart(chart.canvas, chart.configure(colour));
  }
}

// `configure` takes a function from the name of a colour to the colour.
function chart(description, height, configure) {
  const canvas = element('canvas', {role: 'img', 'aria-label': description});
  charts.push({canvas, configure: (colour) => {
    const configuration = configure(colour);
    Object.assign(configuration.options,
        {animation: false, responsive: true, maintainAspectRatio: false});
    return configuration;
  }});
  return element('div', {class: 'chart', style: `height: ${height}px`}, canvas);
}

function bytesAxis(unit, more = {}) {
  return {beginAtZero: true, title: {display: true, text: unit.name}, ...more};
}

// How a curve is drawn, in a color that no category has. Where curves coincide, earlier ones show
// through the dashes of later ones, if the first is drawn first: so it is the last data set of a chart.
function lookOf(index) {
  const dashes = [[], [12, 4], [8, 8], [4, 8]];
  return {colour: `curve-${index % 6 + 1}`, dash: dashes[index % dashes.length]};
}

// The categories that are hidden in all charts of memory: at first the data set, which would fill
// them.
const folded = new Set(['data']);
const aboutFolding = 'The data set is folded away at first: a click on a category folds it away, ' +
    'or out again, in all charts of memory.';

function unfoldedBytes(bytesOf) {
  return categories.filter((category) => !folded.has(category))
      .reduce((sum, category) => sum + (bytesOf(category) ?? 0), 0);
}

const memoryLegend = {
  position: 'bottom',
  onClick(event, {datasetIndex}, {chart}) {
    const {category} = chart.data.datasets[datasetIndex];
    if (!folded.delete(category)) folded.add(category);
    // Wait until Chart.js has handled the click.
    requestAnimationFrame(drawCharts);
  },
};

// The configuration for bars of {label, bytes: by category}, the categories stacked.
function memoryBars(bars, colour) {
  const unit = unitFor(Math.max(...bars.map(({bytes}) => unfoldedBytes((name) => bytes[name]))));
  return {
    type: 'bar',
    data: {
      labels: bars.map(({label}) => label),
      datasets: categories.filter((category) => bars.some(({bytes}) => bytes[category] > 0))
          .map((category) => ({
            category,
            label: categoryName(category),
            hidden: folded.has(category),
            data: bars.map(({bytes}) => (bytes[category] ?? 0) / unit.bytes),
            backgroundColor: colour(category),
            borderColor: colour('paper'),
            borderWidth: {right: 1},
          })),
    },
    options: {
      indexAxis: 'y',
      scales: {
        x: bytesAxis(unit, {stacked: true}),
        y: {stacked: true, grid: {display: false}, ticks: {autoSkip: false}},
      },
      plugins: {
        legend: memoryLegend,
        tooltip: {callbacks: {label: ({dataset, parsed}) =>
          `${dataset.label} ${formatBytes(Math.round(parsed.x * unit.bytes))}`}},
      },
    },
  };
}

// Tables.

// A cell is text, or {number: text}, or {words: text}.
function cell(tag, content, attributes = {}) {
  const kind = ['number', 'words'].find((key) => content[key] !== undefined);
  return element(tag, kind ? {class: kind, ...attributes} : attributes,
      kind ? content[kind] : content);
}

function table(caption, heads, rows) {
  return element('div', {class: 'wide', tabindex: '0', role: 'region', 'aria-label': caption},
      element('table', {},
          element('caption', {}, caption),
          element('thead', {},
              element('tr', {}, ...heads.map((head) => cell('th', head, {scope: 'col'})))),
          element('tbody', {}, ...rows.map(([first, ...cells]) => element('tr', {},
              cell('th', first, {scope: 'row'}), ...cells.map((content) => cell('td', content)))))));
}

const number = (text) => ({number: text});

function definitions(list) {
  return element('dl', {}, ...Object.entries(list).flatMap(([term, value]) =>
    [element('dt', {}, term), element('dd', {}, value)]));
}

// The page.

function preparePaper(printing) {
  document.documentElement.classList.toggle('printing', printing);
  for (const details of document.querySelectorAll('details')) details.open = printing;
  drawCharts();
}

function showPage(title, ...content) {
  document.title = `${title} (accrue)`;
  document.getElementById('version').textContent = result.version;
  document.getElementById('report').append(element('h1', {}, title), ...content);
  drawCharts();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawCharts);
  addEventListener('beforeprint', () => preparePaper(true));
  addEventListener('afterprint', () => preparePaper(false));
}
