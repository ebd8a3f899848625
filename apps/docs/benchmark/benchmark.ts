import { defineComponent, h, onBeforeUnmount, ref, shallowRef, type VNode } from 'vue';
import { explorer, spoken, table, type Cell } from '../explorers/controls.ts';
import { bytesText, millisecondsText } from '../explorers/quantities.ts';
import {
  type AllReduceFigure,
  type DeviceKind,
  type Figure,
  gigaflops,
  type ProductFigure,
} from './benchmark-messages.ts';
import { published, type PublishedFigure } from './published.ts';
import { deviceNames, gigabytesPerSecond, reportText } from './report.ts';

const MOST_MS = 180_000;
const PRODUCT_SIZES = [256, 512, 1024];
const REDUCED_BYTES = [64 << 10, 1 << 20, 64 << 20];

/** Measures this device, compares it with published figures of others, and offers a report to copy. */
export const Benchmark = defineComponent({
  name: 'Benchmark',
  setup() {
    const figures = shallowRef<readonly Figure[]>([]);
    const skipped = ref('');
    const ranksSetting = ref('');
    const said = ref('Not measured.');
    const isRunning = ref(false);
    let ending = new AbortController();

    const stop = (text: string): void => {
      ending.abort();
      isRunning.value = false;
      said.value = text;
    };
    onBeforeUnmount(() => stop(''));

    const start = async (): Promise<void> => {
      const own = new AbortController();
      ending = own;
      figures.value = [];
      skipped.value = '';
      ranksSetting.value = '';
      said.value = 'Measuring: products, then a training of one rank, then two ranks.';
      isRunning.value = true;
      const timer = setTimeout(() => stop(`Ended after ${MOST_MS / 60_000} minutes.`), MOST_MS);
      try {
        const { measurePage } = await import('./measure-page.ts');
        await measurePage(
          {
            onFigure: (figure) => {
              if (!own.signal.aborted) figures.value = [...figures.value, figure];
            },
            onSkipped: (reason) => (skipped.value = `Not on WebGPU: ${reason}.`),
            onRanks: (setting) => (ranksSetting.value = setting),
          },
          own.signal,
        );
        if (!own.signal.aborted) stop('Done.');
      } catch (error) {
        if (!own.signal.aborted) stop(error instanceof Error ? error.message : String(error));
      } finally {
        clearTimeout(timer);
      }
    };

    const report = (): string =>
      reportText({
        browser: navigator.userAgent,
        threads: navigator.hardwareConcurrency,
        transport: ranksSetting.value,
        date: new Date().toISOString().slice(0, 10),
        figures: figures.value,
      });
    const copy = async (): Promise<void> => {
      try {
        await navigator.clipboard.writeText(report());
        said.value = 'The report is copied.';
      } catch {
        said.value = 'The browser does not let this page copy. The report stands below.';
      }
    };

    return (): VNode =>
      explorer('Benchmark', [
        h('div', { class: 'buttons' }, [
          isRunning.value
            ? h(
                'button',
                { type: 'button', class: 'primary', onClick: () => stop('Stopped.') },
                'Stop',
              )
            : h(
                'button',
                { type: 'button', class: 'primary', onClick: () => void start() },
                'Measure',
              ),
          h(
            'button',
            { type: 'button', disabled: figures.value.length === 0, onClick: () => void copy() },
            'Copy the report',
          ),
        ]),
        spoken(said.value),
        ...[skipped.value, ranksSetting.value].map((text) =>
          text === '' ? null : h('p', { class: 'setting' }, text),
        ),
        productsTable(figures.value),
        trainingTable(figures.value),
        allReduceTable(figures.value),
        figures.value.length === 0
          ? null
          : h('details', [
              h('summary', 'The report'),
              h('pre', { class: 'scroller', tabindex: 0, 'aria-label': 'The report' }, report()),
            ]),
      ]);
  },
});

const HERE = 'this device';

/** Returns the rows of other machines. */
function rowsOf(what: PublishedFigure['what'], columns: number): readonly (readonly Cell[])[] {
  return published
    .filter((each) => each.what === what)
    .map(({ by, figures, date }) => [
      nameCell(by),
      ...Array.from({ length: columns }, (_, column) => figures[column] || '–'),
      date,
    ]);
}

/** Returns a cell for a long name, which takes several lines. */
function nameCell(text: string): Cell {
  return { text, node: h('span', { class: 'long-name' }, text) };
}

function productsTable(figures: readonly Figure[]): VNode {
  const products = figures.filter((each): each is ProductFigure => each.kind === 'product');
  const devices: readonly DeviceKind[] = products.some(({ device }) => device === 'webgpu')
    ? ['wasm', 'webgpu']
    : ['wasm'];
  return table(
    'Product of two matrices in f32, GFLOP/s, best of 5',
    [
      { title: 'by' },
      // These blanks do not break lines.
      ...PRODUCT_SIZES.map((size) => ({ title: `${size}\u00A0×\u00A0${size}`, isNumber: true })),
      { title: 'measured' },
    ],
    [
      ...devices.map((device) => [
        nameCell(`${HERE}, ${deviceNames[device]}`),
        ...PRODUCT_SIZES.map((size) => {
          const found = products.find((each) => each.device === device && each.size === size);
          return found === undefined ? '–' : gigaflops(found).toFixed(1);
        }),
        'now',
      ]),
      ...rowsOf('product', PRODUCT_SIZES.length),
    ],
  );
}

function trainingTable(figures: readonly Figure[]): VNode {
  const own = figures.flatMap((each) => {
    if (each.kind !== 'training') return [];
    const ranks = each.ranks === 1 ? 'one rank' : `${each.ranks} ranks with DDP`;
    return [
      [
        nameCell(`${HERE}, ${deviceNames[each.device]}, ${ranks}`),
        Math.round(each.tokensPerSecond),
        Math.round(each.stepMs),
        'now',
      ],
    ];
  });
  return table(
    'Training of a GPT of 3.3 million parameters in f32, 1024 tokens a rank and step',
    [
      { title: 'by' },
      { title: 'tokens/s', isNumber: true },
      { title: 'ms a step', isNumber: true },
      { title: 'measured' },
    ],
    [...(own.length === 0 ? [[nameCell(HERE), '–', '–', 'now']] : own), ...rowsOf('training', 2)],
  );
}

function allReduceTable(figures: readonly Figure[]): VNode {
  const reduced = figures.filter((each): each is AllReduceFigure => each.kind === 'allReduce');
  return table(
    'All-reduce between two ranks, best of 5 rounds',
    [
      { title: 'by' },
      ...REDUCED_BYTES.map((bytes) => ({ title: bytesText(bytes), isNumber: true })),
      { title: 'measured' },
    ],
    [
      [
        nameCell(HERE),
        ...REDUCED_BYTES.map((bytes) => {
          const found = reduced.find((each) => each.bytes === bytes);
          return found === undefined
            ? '–'
            : `${millisecondsText(found.milliseconds)}, ${gigabytesPerSecond(found).toFixed(1)} GB/s`;
        }),
        'now',
      ],
      ...rowsOf('allReduce', REDUCED_BYTES.length),
    ],
  );
}
