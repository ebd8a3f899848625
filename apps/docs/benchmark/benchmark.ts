import { defineComponent, h, onBeforeUnmount, ref, shallowRef, type VNode } from 'vue';
import { explorer, spoken, table } from '../explorers/controls.ts';
import { millisecondsText } from '../explorers/quantities.ts';
import type { BenchmarkMessage, Measurement } from './benchmark-messages.ts';

const MOST_MS = 60_000;

/** How fast this device multiplies matrices, with a report to copy. */
export const Benchmark = defineComponent({
  name: 'Benchmark',
  setup() {
    const measured = shallowRef<readonly Measurement[]>([]);
    const notice = ref('');
    const isRunning = ref(false);
    const said = ref('Not measured.');
    let worker: Worker | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;

    const stop = (text: string): void => {
      clearTimeout(timer);
      worker?.terminate();
      worker = undefined;
      isRunning.value = false;
      said.value = text;
    };
    onBeforeUnmount(() => stop(''));

    const start = (): void => {
      measured.value = [];
      notice.value = '';
      said.value = 'Measuring.';
      isRunning.value = true;
      worker = new Worker(new URL('./benchmark-worker.ts', import.meta.url), { type: 'module' });
      timer = setTimeout(() => stop('Ended after a minute.'), MOST_MS);
      worker.addEventListener('message', ({ data }: MessageEvent<BenchmarkMessage>) => {
        if (data.kind === 'measured') measured.value = [...measured.value, data.measurement];
        else if (data.kind === 'skipped') notice.value = `Not on WebGPU: ${data.reason}`;
        else if (data.kind === 'failed') stop(data.message);
        else stop(`Done: ${best(measured.value)} GFLOP/s at best.`);
      });
    };

    const copy = async (): Promise<void> => {
      const lines = measured.value.map(
        ({ device, size, milliseconds, gigaflops }) =>
          `${device} f32 ${size} x ${size}: ${milliseconds.toFixed(2)} ms, ${gigaflops.toFixed(1)} GFLOP/s`,
      );
      const report = [
        navigator.userAgent,
        `${navigator.hardwareConcurrency} threads`,
        ...lines,
      ].join('\n');
      try {
        await navigator.clipboard.writeText(report);
        said.value = 'The report is copied.';
      } catch {
        said.value = report;
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
            : h('button', { type: 'button', class: 'primary', onClick: start }, 'Measure'),
          h(
            'button',
            { type: 'button', disabled: measured.value.length === 0, onClick: () => void copy() },
            'Copy the report',
          ),
        ]),
        spoken(said.value),
        notice.value === '' ? null : h('p', { class: 'setting' }, notice.value),
        table(
          'Product of two matrices in f32, best of 5',
          [
            { title: 'device' },
            { title: 'size', isNumber: true },
            { title: 'time', isNumber: true },
            { title: 'GFLOP/s', isNumber: true },
          ],
          measured.value.map(({ device, size, milliseconds, gigaflops }) => [
            device === 'wasm' ? 'WebAssembly, one thread' : 'WebGPU',
            `${size} × ${size}`,
            millisecondsText(milliseconds),
            gigaflops.toFixed(1),
          ]),
        ),
      ]);
  },
});

function best(measured: readonly Measurement[]): string {
  return Math.max(0, ...measured.map(({ gigaflops }) => gigaflops)).toFixed(1);
}
