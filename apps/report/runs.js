'use strict';

// The page of `accrue report`: runs beside each other.

const {runs} = result;

// Runs that share a colour differ in their dashes.
function lookOf(index) {
  const colours = ['parameters', 'gradients', 'optimizer', 'activations', 'workspace', 'untold'];
  const dashes = [[], [8, 4], [2, 3]];
  return {
    colour: colours[index % colours.length],
    dash: dashes[Math.floor(index / colours.length) % dashes.length],
  };
}

function formatNumber(value, digits = 4) {
  return value === null || value === undefined ? '' : String(Number(value.toPrecision(digits)));
}

// Charts.

// A line over the steps for each run that has any of the key's values.
function curveChart(key, what, more = {}) {
  const shown = runs.filter((run) => run.curves[key]?.some((value) => value !== null));
  const description = `Lines of ${what} over the optimizer steps of ` +
      `${counted(shown.length, 'run')}: ${shown.map((run) => run.label).join(', ')}. ` +
      'The table of steps has numbers.';
  return chart(description, 320, (colour) => ({
    type: 'line',
    data: {
      datasets: shown.map((run) => {
        const look = lookOf(runs.indexOf(run));
        return {
          label: run.label,
          data: run.curves.step.map((x, i) => ({x, y: run.curves[key][i]}))
              .filter(({y}) => y !== null),
          borderColor: colour(look.colour),
          backgroundColor: colour(look.colour),
          borderDash: look.dash,
          borderWidth: 2,
          pointRadius: run.curves.step.length > 1 ? 0 : 4,
        };
      }),
    },
    options: {
      parsing: false,
      scales: {
        x: {type: 'linear', title: {display: true, text: 'optimizer step'},
          ticks: {precision: 0}},
        y: {title: {display: true, text: what}, ...more},
      },
      plugins: {legend: {position: 'bottom'}},
    },
  }));
}

function memoryChart() {
  const totals = runs.map((run) => run.peak_bytes.total);
  const unit = unitFor(Math.max(...totals));
  const description = 'Bars of the peak memory of each run by category: ' +
      runs.map((run, i) => `${run.label} ${formatBytes(totals[i])}`).join(', ') +
      '. The table of memory has every number.';
  const bars = runs.map((run) => ({label: run.label, bytes: run.peak_bytes}));
  return chart(description, 110 + 36 * runs.length, (colour) => memoryBars(bars, unit, colour));
}

// What runs are scored by: accuracy for classes, Dice for masks.
const scores = [{key: 'accuracy', text: 'test accuracy, %'}, {key: 'dice', text: 'test Dice'}]
    .filter(({key}) => runs.some((run) => run.test?.[key] !== undefined));

function scoreChart({key, text}) {
  const scored = runs.filter((run) => run.test?.[key] !== undefined);
  const averaged = scored.some((run) => run.test_ema);
  const values = scored.flatMap((run) => [run.test[key], run.test_ema?.[key] ?? run.test[key]]);
  const spread = Math.max(...values) - Math.min(...values);
  const description = `Bars of the ${text}: ` +
      scored.map((run) => `${run.label} ${formatNumber(run.test[key])}`).join(', ') + '.';
  const bars = (label, name, valueOf) => (colour) => ({
    label, data: scored.map(valueOf), backgroundColor: colour(name), maxBarThickness: 28});
  const datasets = [bars('weights', 'parameters', (run) => run.test[key]),
    ...(averaged ? [bars('average of the weights', 'activations',
        (run) => run.test_ema?.[key] ?? null)] : [])];
  return chart(description, 110 + 36 * scored.length * datasets.length, (colour) => ({
    type: 'bar',
    data: {labels: scored.map((run) => run.label), datasets: datasets.map((make) => make(colour))},
    options: {
      indexAxis: 'y',
      scales: {
        // Bars from 0 would hide the differences of good runs: the axis says where it begins.
        x: {min: Math.max(0, Math.min(...values) - Math.max(spread, 0.02 * Math.max(...values))),
          title: {display: true, text}},
        y: {grid: {display: false}, ticks: {autoSkip: false}},
      },
      plugins: {legend: {position: 'bottom'}},
    },
  }));
}

// Tables.

function withoutData(peak) {
  return peak.total - peak.data;
}

function resultsTable() {
  const averaged = runs.some((run) => run.test_ema);
  const noisy = runs.some((run) => run.noise_scale);
  const heads = ['run', 'state', number('steps'), number('last loss'),
    ...scores.flatMap(({text}) => [number(text), ...(averaged ? [number('of average')] : [])]),
    number('test loss'), number('samples/s'), number('memory'),
    ...(noisy ? [number('noise scale')] : []), 'batch'];
  return table('Results: scores (and those of the average of the weights), speed, peak memory without data, ' +
      'and the effective batch', heads,
      runs.map((run) => [
        run.label, run.status, number(String(run.steps)), number(formatNumber(run.last_loss)),
        ...scores.flatMap(({key}) => [number(formatNumber(run.test?.[key])),
          ...(averaged ? [number(formatNumber(run.test_ema?.[key]))] : [])]),
        number(formatNumber(run.test?.loss)), number(formatNumber(run.samples_per_s, 5)),
        number(formatBytes(withoutData(run.peak_bytes))),
        ...(noisy ? [number(formatNumber(run.noise_scale, 3))] : []), run.batches ?? '']));
}

function memoryTable() {
  const shown = categories.filter((category) => runs.some((run) => run.peak_bytes[category] > 0));
  return table('Peak memory by category', ['run', ...shown.map(number), number('total')],
      runs.map((run) => [run.label,
        ...shown.map((category) => number(formatBytes(run.peak_bytes[category] ?? 0))),
        number(formatBytes(run.peak_bytes.total))]));
}

// About ten steps of every run; where its curve was thinned, means around them.
function stepsTable(run) {
  const {step} = run.curves;
  const keys = ['loss', 'lr', 'grad_norm', 'samples_per_s', 'noise_scale']
      .filter((key) => run.curves[key]);
  const rows = [...new Set(Array.from({length: 10}, (_, i) =>
    Math.round(i * (step.length - 1) / 9)))];
  return element('details', {}, element('summary', {}, `Steps of ${run.label} in numbers`),
      table(`${run.label}: what its steps told`, [number('step'), ...keys.map(number)],
          rows.map((i) => [number(String(step[i])),
            ...keys.map((key) => number(formatNumber(run.curves[key][i])))])));
}

const settingsOf = (run) => ({...run.settings, ...run.environment});

function settingsTable(caption, differing) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(settingsOf(run))))].sort();
  const values = (name) => runs.map((run) => String(settingsOf(run)[name] ?? 'not set'));
  const rows = names.filter((name) => !differing || new Set(values(name)).size > 1)
      .map((name) => [name, ...values(name).map((text) => ({words: text}))]);
  return rows.length === 0 ? element('p', {}, 'All settings are the same.') :
    table(caption, ['setting', ...runs.map((run) => run.label)], rows);
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

const noiseSection = runs.some((run) => run.curves.noise_scale?.some((value) => value !== null)) ?
  [section('Gradient noise scale', element('p', {}, 'In samples: effective batches far below it ' +
      'save samples, far above it they save no steps.'),
  curveChart('noise_scale', 'noise scale, samples', {beginAtZero: true}))] : [];

showPage(runs.length === 1 ? `Run ${runs[0].label}` : `${runs.length} runs compared`, facts(),
    section('Results', resultsTable(), ...scores.map(scoreChart)),
    section('Loss', curveChart('loss', 'loss')),
    section('Memory', memoryChart(), memoryTable()),
    section('Throughput', curveChart('samples_per_s', 'samples/s', {beginAtZero: true})),
    section('Gradient norm', curveChart('grad_norm', 'norm before clipping', {beginAtZero: true})),
    ...noiseSection,
    section('Steps', ...runs.map(stepsTable)),
    section('Settings',
        ...(runs.length > 1 ? [settingsTable('Settings that differ', true)] : []),
        element('details', {}, element('summary', {}, 'All settings'),
            settingsTable('All settings', false))));
