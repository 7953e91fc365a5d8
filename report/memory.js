'use strict';

// The page of `bench memory --report`.

// Ways of one kind share a color. Each way has a different mark.
const styleOfWay = {
  fused: {colour: 'curve-1', pointStyle: 'circle'},
  separate: {colour: 'curve-2', pointStyle: 'rect'},
  'recompute-sqrt': {colour: 'curve-3', pointStyle: 'triangle'},
  'recompute-all': {colour: 'curve-3', pointStyle: 'rectRot'},
  'fused-bf16': {colour: 'curve-6', pointStyle: 'crossRot'},
  'fused-fp16': {colour: 'curve-6', pointStyle: 'rectRounded'},
  moments: {colour: 'curve-4', pointStyle: 'star'},
  pytorch: {colour: 'curve-5', pointStyle: 'cross'},
};
Object.values(styleOfWay).forEach((style, index) => { style.dash = lookOf(index).dash; });

function formatTime(microseconds) {
  return microseconds < 100 ? microseconds.toFixed(1) : microseconds.toFixed(0);
}

function formatDifference(difference) {
  if (difference === null) return '';
  return difference === 0 ? '0' : difference.toExponential(1);
}

function split(row) {
  const rest = row.effective_batch % row.micro_batch;
  if (row.accum === 1) return 'at once';
  if (rest === 0) return `${row.micro_batch} × ${row.accum}`;
  return `${row.micro_batch} × ${row.accum - 1} + ${rest}`;
}

function rowLabel(row) {
  return row.way === 'at-once' ? 'at once' : `${row.way} ${split(row)}`;
}

const bytesOf = (row, category) => row.peak_bytes[category] ?? 0;

// A dashed line over the chart where the baseline's bar, the first, ends.
function baselineMark(colour) {
  return {
    id: 'baseline',
    afterDatasetsDraw({ctx, chartArea, scales, data}) {
      const x = scales.x.getPixelForValue(data.datasets.filter(({hidden}) => !hidden)
          .reduce((sum, dataset) => sum + dataset.data[0], 0));
      ctx.save();
      ctx.strokeStyle = colour;
      ctx.setLineDash([5, 4]);
      ctx.beginPath();
      ctx.moveTo(x, chartArea.top);
      ctx.lineTo(x, chartArea.bottom);
      ctx.stroke();
      ctx.restore();
    },
  };
}

function peakChart(rows) {
  const totals = rows.map((row) => row.peak_bytes.total);
  const least = rows[totals.indexOf(Math.min(...totals))];
  const description = `Bars of the peak memory of ${rows.length} configurations by category: ` +
      `${formatBytes(totals[0])} at once, least with ${rowLabel(least)}, ` +
      `${formatBytes(least.peak_bytes.total)}. The table below has every number.`;
  const bars = rows.map((row) => ({label: rowLabel(row), bytes: row.peak_bytes}));
  return chart(description, 90 + 24 * rows.length, (colour) => ({
    ...memoryBars(bars, colour),
    plugins: [baselineMark(colour('ink'))],
  }));
}

function timeChart(rows) {
  const [baseline, ...others] = rows;
  const accumulating = [...new Set(rows.map((row) => row.accum))].sort((a, b) => a - b);
  const ways = [...new Set(others.filter((row) => row.accum > 1).map((row) => row.way))];
  const timeOf = (way, accum) => rows.find((row) => row.accum === accum &&
      (row.way === way || (accum === 1 && way === 'fused' && row === baseline)))?.us_per_sample;
  const description = `Lines of the time per sample over K for ${ways.join(', ')}; ` +
      `${formatTime(baseline.us_per_sample)} microseconds at once. ` +
      'The table below has every number.';
  return chart(description, 320, (colour) => ({
    type: 'line',
    data: {
      labels: accumulating,
      datasets: [
        {
          label: 'at once',
          data: accumulating.map(() => baseline.us_per_sample),
          borderColor: colour('ink'),
          borderDash: [5, 4],
          borderWidth: 1,
          pointRadius: 0,
          pointStyle: 'line',
        },
        ...ways.map((way) => ({
          label: way,
          data: accumulating.map((accum) => timeOf(way, accum) ?? null),
          borderColor: colour(styleOfWay[way].colour),
          backgroundColor: colour(styleOfWay[way].colour),
          borderDash: styleOfWay[way].dash,
          pointStyle: styleOfWay[way].pointStyle,
          pointRadius: 5,
          borderWidth: 2,
          spanGaps: true,
        })),
      ].reverse(),
    },
    options: {
      scales: {
        x: {title: {display: true, text: 'K, micro-batches per optimizer step'}},
        y: {beginAtZero: true, title: {display: true, text: 'µs per sample'}},
      },
      plugins: {legend: {position: 'bottom', reverse: true, labels: {usePointStyle: true}}},
    },
  }));
}

// The largest sum of unfolded categories at any moment of any timeline.
function highest(timelines) {
  return Math.max(...timelines.flatMap(({ms, bytes}) =>
    ms.map((_, i) => unfoldedBytes((category) => bytes[category]?.[i]))));
}

// All timelines have the same scale, so that they can be compared.
function timelineChart(timeline, timelines) {
  const description = `Memory over one window, ${timeline.label}: stacked areas by category, ` +
      `${formatBytes(timeline.peak_bytes)} at the highest. The table of phases has the numbers.`;
  return chart(description, 320, (colour) => {
    const top = highest(timelines), unit = unitFor(top);
    const points = (category) => {
      const bytes = timeline.bytes[category];
      const list = timeline.ms.map((ms, i) => ({x: ms, y: bytes[i] / unit.bytes}));
      return [...list, {x: timeline.duration_ms, y: bytes.at(-1) / unit.bytes}];
    };
    return {
      type: 'line',
      data: {
        datasets: categories.filter((category) => timeline.bytes[category]?.some((b) => b > 0))
            .map((category, i) => ({
              category,
              label: categoryName(category),
              hidden: folded.has(category),
              data: points(category),
              fill: i === 0 ? 'origin' : '-1',
              backgroundColor: colour(category),
              borderWidth: 0,
              pointRadius: 0,
              stepped: true,
            })),
      },
      options: {
        parsing: false,
        scales: {
          x: {type: 'linear', max: Math.max(...timelines.map((each) => each.duration_ms)),
            title: {display: true, text: 'ms'}, ticks: {includeBounds: false}},
          y: bytesAxis(unit, {stacked: true, max: 1.05 * top / unit.bytes,
            ticks: {includeBounds: false}}),
        },
        plugins: {legend: memoryLegend, tooltip: {enabled: false}},
      },
    };
  });
}

const firstHeads = ['way', number('split')];
const firstCells = (row) => [row.way, number(split(row))];

function rowsTable(rows) {
  const reserved = rows.some((row) => row.peak_reserved_bytes);
  const heads = [...firstHeads, 'against one batch at once, data aside', number('total'),
    ...(reserved ? [number('reserved')] : []), number('RSS growth'), number('µs/sample'),
    number('max |Δw|')];
  return table('Peak memory, growth of the process (RSS), time per sample, and largest ' +
      'difference of the weights', heads, rows.map((row) => [
    ...firstCells(row), {words: row.verdict}, number(formatBytes(row.peak_bytes.total)),
    ...(reserved ? [number(row.peak_reserved_bytes ? formatBytes(row.peak_reserved_bytes) : '')] :
      []),
    number(formatBytes(row.peak_rss_growth_bytes)), number(formatTime(row.us_per_sample)),
    number(formatDifference(row.largest_weight_difference))]));
}

function categoriesTable(rows) {
  const shown = categories.filter((category) => rows.some((row) => bytesOf(row, category) > 0));
  return table('Peak memory by category',
      [...firstHeads, ...shown.map((category) => number(categoryName(category))), number('total')],
      rows.map((row) => [...firstCells(row),
        ...shown.map((category) => number(row.way === 'pytorch' && bytesOf(row, category) === 0 ?
          '?' : formatBytes(bytesOf(row, category)))),
        number(formatBytes(row.peak_bytes.total))]));
}

function phasesTable(timeline) {
  const shown = categories.filter((category) => timeline.bytes[category]?.some((b) => b > 0));
  const heads = ['phase', number('micro-batch'), number('from ms'), number('ms'),
    ...shown.map(number), number('total')];
  const rows = timeline.phases.map((phase) => [
    phase.name, number(phase.name === 'step' ? '' : String(phase.micro_batch)),
    number(phase.start_ms.toFixed(2)), number(phase.duration_ms.toFixed(2)),
    ...shown.map((category) => number(formatBytes(phase.bytes[category]))),
    number(formatBytes(shown.reduce((sum, category) => sum + phase.bytes[category], 0)))]);
  return element('details', {},
      element('summary', {}, `The ${rows.length} phases of ${timeline.label} in numbers`),
      table(`${timeline.label}: each phase at the moment when it holds most`, heads, rows));
}

// The page.

function facts() {
  return definitions({
    Model: `${result.model} on ${result.data}, ${result.precision}, ${result.optimizer}`,
    Machine: `${result.machine}, ${result.device}, ${counted(result.threads, 'thread')}`,
    Runs: `${counted(result.steps, 'optimizer step')} each, ` +
        `${counted(result.rounds, 'round')} in turns, medians of time`,
    Date: result.date,
    Command: element('code', {}, result.command),
  });
}

function timelineSection(timelines) {
  return element('section', {},
      element('h3', {}, 'One window over time'),
      element('p', {}, 'Stacked on one scale. Recording takes time: durations here are longer ' +
        'than those above.'),
      element('div', {class: 'side-by-side'}, ...timelines.map((timeline) => element('div', {},
          element('h4', {}, timeline.label),
          timelineChart(timeline, timelines)))),
      ...timelines.map(phasesTable));
}

function group(rows, timelines) {
  const {width, effective_batch: effective} = rows[0];
  return element('section', {},
      element('h2', {}, `Effective batch ${effective}, width ${width}`),
      element('h3', {}, 'Peak memory'),
      element('p', {}, `The dashed line is one batch at once. ${aboutFolding}`),
      peakChart(rows),
      ...(rows.some((row) => row.accum > 1) ?
        [element('h3', {}, 'Time per sample'), timeChart(rows)] : []),
      element('h3', {}, 'In numbers'),
      rowsTable(rows),
      categoriesTable(rows),
      timelineSection(timelines));
}

// Consecutive rows with the same width and effective batch.
function groupsOf(rows) {
  const groups = [];
  for (const row of rows) {
    if (row.way === 'at-once') groups.push([]);
    groups.at(-1).push(row);
  }
  return groups;
}

showPage(`Memory of ${result.model} with and without accumulation`, facts(),
    ...groupsOf(result.rows).map((rows, i) => group(rows, result.timelines[i])));
