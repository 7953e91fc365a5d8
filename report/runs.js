'use strict';

// The page of `accrue report`: compares runs.

const {runs} = result;

// A run has one curve, or one for each network if several train each other.
const curves = runs.flatMap((run) => run.curves.map((curve) =>
  ({...curve, run, label: curve.player ? `${run.label}: ${curve.player}` : run.label})))
    .map((curve, i) => ({...curve, look: lookOf(i)}));

// The scores during a run look like its curve.
const scoreCurves = runs.filter((run) => run.scores).map((run) =>
  ({...run.scores, label: run.label, look: lookOfRun(run)}));

function lookOfRun(run) {
  return curves.find((curve) => curve.run === run).look;
}

function formatNumber(value, digits = 4) {
  if (value === undefined) return '';
  return value === null ? '-' : String(Number(value.toPrecision(digits)));
}

// Charts.

// Shows the dashes of the lines. Reversed, because the data sets are in reverse order.
const curveLegend = {
  position: 'bottom',
  reverse: true,
  labels: {
    usePointStyle: true,
    pointStyleWidth: 40,
    generateLabels: (chart) => Chart.defaults.plugins.legend.labels.generateLabels(chart)
        .map((label) => ({...label, lineDash: chart.data.datasets[label.datasetIndex].borderDash})),
  },
};

// A line over the steps for each curve that has any value of the key.
function curveChart(key, what, more = {}, from = curves) {
  const shown = from.filter((curve) => curve[key]?.some((value) => value !== null));
  const description = `Lines of ${what} over the optimizer steps of ` +
      `${counted(shown.length, 'curve')}: ${shown.map(({label}) => label).join(', ')}. ` +
      'The table of steps has numbers.';
  return chart(description, 320, (colour) => ({
    type: 'line',
    data: {
      datasets: shown.map((curve) => {
        const {look} = curve;
        return {
          label: curve.label,
          data: curve.step.map((x, i) => ({x, y: curve[key][i]})).filter(({y}) => y !== null),
          borderColor: colour(look.colour),
          backgroundColor: colour(look.colour),
          borderDash: look.dash,
          borderWidth: 2,
          pointStyle: 'line',
          pointRadius: curve.step.length > 1 ? 0 : 8,
        };
      }).reverse(),
    },
    options: {
      parsing: false,
      scales: {
        x: {type: 'linear', title: {display: true, text: 'optimizer step'},
          ticks: {precision: 0}},
        y: {title: {display: true, text: what}, ...more},
      },
      plugins: {legend: curveLegend},
    },
  }));
}

function memoryChart() {
  const totals = runs.map((run) => run.peak_bytes.total);
  const description = 'Bars of the peak memory of each run by category: ' +
      runs.map((run, i) => `${run.label} ${formatBytes(totals[i])}`).join(', ') +
      '. The table of memory has every number.';
  const bars = runs.map((run) => ({label: run.label, bytes: run.peak_bytes}));
  return chart(description, 110 + 36 * runs.length, (colour) => memoryBars(bars, colour));
}

// A score is null if it is undefined for the data.
function isScored(score) {
  return score !== undefined && score !== null;
}

// The scores of runs: accuracy for classes, Dice for masks, SSIM for drawings.
const scores = [{key: 'accuracy', text: 'test accuracy, %'}, {key: 'dice', text: 'test Dice'},
  {key: 'ssim', text: 'test SSIM'}]
    .filter(({key}) => runs.some((run) => run.test?.[key] !== undefined));

// A bar for each run's weights, and for their average, in the colour of the run's curve.
function scoreChart({key, text}) {
  const bars = runs.filter((run) => isScored(run.test?.[key])).flatMap((run) => {
    const {colour} = lookOfRun(run);
    const bar = {label: run.label, score: run.test[key], colour};
    const average = run.test_ema?.[key];
    return isScored(average) ?
      [bar, {label: `${run.label}, average`, score: average, colour}] : [bar];
  });
  const description = `Bars of the ${text}: ` +
      bars.map(({label, score}) => `${label} ${formatNumber(score)}`).join(', ') + '.';
  return chart(description, 70 + 36 * bars.length, (colour) => ({
    type: 'bar',
    data: {
      labels: bars.map(({label}) => label),
      datasets: [{label: text, data: bars.map(({score}) => score), maxBarThickness: 28,
        backgroundColor: bars.map((bar) => colour(bar.colour))}],
    },
    options: {
      indexAxis: 'y',
      scales: {
        x: {beginAtZero: true, title: {display: true, text}},
        y: {grid: {display: false}, ticks: {autoSkip: false}},
      },
      plugins: {legend: {display: false}},
    },
  }));
}

// Tables.

function withoutData(peak) {
  return peak.total - peak.data;
}

function lastLoss({curves}) {
  const text = curves.map(({player, last_loss: loss}) =>
    `${player ? `${player} ` : ''}${formatNumber(loss)}`).join(', ');
  return curves.length === 1 ? number(text) : {words: text};
}

function resultsTable() {
  const averaged = (key) => runs.some((run) => run.test_ema?.[key] !== undefined);
  const noisy = runs.some((run) => run.noise_scale);
  const heads = ['run', 'state', number('steps'),
    number('last loss'),
    ...scores.flatMap(({key, text}) =>
      [number(text), ...(averaged(key) ? [number('of average')] : [])]),
    number('test loss'), number('samples/s'), number('memory'),
    ...(noisy ? [number('noise scale')] : []), 'batch'];
  return table('Results: scores (and those of the average of the weights), speed, peak memory without data, ' +
      'and the effective batch', heads,
      runs.map((run) => [
        run.label, run.status, number(String(run.steps)), lastLoss(run),
        ...scores.flatMap(({key}) => [number(formatNumber(run.test?.[key])),
          ...(averaged(key) ? [number(formatNumber(run.test_ema?.[key]))] : [])]),
        number(formatNumber(run.test?.loss)), number(formatNumber(run.samples_per_s, 5)),
        number(formatBytes(withoutData(run.peak_bytes))),
        ...(noisy ? [number(formatNumber(run.noise_scale, 3))] : []), run.batches ?? '']));
}

function memoryTable() {
  const shown = categories.filter((category) => runs.some((run) => run.peak_bytes[category] > 0));
  return table('Peak memory by category, and growth of the process (RSS)',
      ['run', ...shown.map(number), number('total'), number('RSS growth')],
      runs.map((run) => [run.label,
        ...shown.map((category) => number(formatBytes(run.peak_bytes[category] ?? 0))),
        number(formatBytes(run.peak_bytes.total)),
        number(run.peak_rss_growth_bytes ? formatBytes(run.peak_rss_growth_bytes) : '')]));
}

// About ten steps of every curve; in a thinned curve, each is a mean over neighboring steps.
function stepsTable(curve) {
  const {label, step} = curve;
  const keys = ['loss', 'lr', 'grad_norm', 'samples_per_s', 'noise_scale']
      .filter((key) => curve[key]);
  const rows = [...new Set(Array.from({length: 10}, (_, i) =>
    Math.round(i * (step.length - 1) / 9)))];
  return element('details', {}, element('summary', {}, `Steps of ${label} in numbers`),
      table(`${label}: what its steps told`, [number('step'), ...keys.map(number)],
          rows.map((i) => [number(String(step[i])),
            ...keys.map((key) => number(formatNumber(curve[key][i])))])));
}

const settingsOf = (run) => ({...run.settings, ...run.environment});

// A run writes its settings when it ends.
const told = runs.filter((run) => run.settings);

function settingsTable(caption, differing) {
  const names = [...new Set(told.flatMap((run) => Object.keys(settingsOf(run))))].sort();
  const values = (name) => told.map((run) => String(settingsOf(run)[name] ?? 'not set'));
  const rows = names.filter((name) => !differing || new Set(values(name)).size > 1)
      .map((name) => [name, ...values(name).map((text) => ({words: text}))]);
  return rows.length === 0 ? element('p', {}, 'All settings are the same.') :
    table(caption, ['setting', ...told.map((run) => run.label)], rows);
}

// The page.

function section(title, ...content) {
  return element('section', {}, element('h2', {}, title), ...content);
}

function facts() {
  return definitions({
    Date: result.date,
    Command: element('code', {}, result.command),
    ...Object.fromEntries(runs.filter((run) => run.command).map((run) =>
      [run.label, element('code', {}, run.command)])),
  });
}

const noiseSection = curves.some((curve) => curve.noise_scale?.some((value) => value !== null)) ?
  [section('Gradient noise scale', element('p', {}, 'In what the loss is a mean over, ' +
      'samples, judged pixels or tokens: effective batches far below it save samples, far above it ' +
      'they save no steps.'),
  curveChart('noise_scale', 'noise scale', {beginAtZero: true}))] : [];

const scoreSections = scoreCurves.length === 0 ? [] :
  [section('Scores on the way', ...[...scores, {key: 'loss', text: 'test loss'}]
      .filter(({key}) => scoreCurves.some((curve) => curve[key]))
      .map(({key, text}) => curveChart(key, text, {}, scoreCurves)))];

function sheetOf({label, sheet}) {
  const what = `${label}: sources, drawings and targets after window ${sheet.window}`;
  return element('figure', {}, element('figcaption', {}, what),
      element('img', {src: `data:image/png;base64,${sheet.png}`, alt: what}));
}

const sheets = runs.filter((run) => run.sheet).map(sheetOf);

showPage(runs.length === 1 ? `Run ${runs[0].label}` : `${runs.length} runs compared`, facts(),
    section('Results', resultsTable(),
        ...scores.filter(({key}) => runs.some((run) => isScored(run.test?.[key])))
            .map(scoreChart)),
    section('Loss', curveChart('loss', 'loss')),
    ...scoreSections,
    ...(sheets.length === 0 ? [] :
      [section('Drawings of characters that were held out', ...sheets)]),
    section('Memory', element('p', {}, aboutFolding), memoryChart(), memoryTable()),
    section('Throughput', curveChart('samples_per_s', 'samples/s', {beginAtZero: true})),
    section('Gradient norm', curveChart('grad_norm', 'norm before clipping', {beginAtZero: true})),
    ...noiseSection,
    section('Steps', ...curves.map(stepsTable)),
    ...(told.length === 0 ? [] : [section('Settings',
        ...(told.length > 1 ? [settingsTable('Settings that differ', true)] : []),
        element('details', {}, element('summary', {}, 'All settings'),
            settingsTable('All settings', false)))]));
