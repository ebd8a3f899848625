import { bytesText, millisecondsText } from '../explorers/quantities.ts';
import {
  gigaflops,
  type AllReduceFigure,
  type DeviceKind,
  type Figure,
} from './benchmark-messages.ts';

export const deviceNames: Readonly<Record<DeviceKind, string>> = {
  wasm: 'WebAssembly',
  webgpu: 'WebGPU',
};

/** The figures, and where they were measured. */
export interface Measured {
  readonly browser: string;
  readonly threads: number;
  /** How ranks communicate. Empty before they have started. */
  readonly transport: string;
  readonly date: string;
  readonly figures: readonly Figure[];
}

/** Returns 10^9 bytes of the buffer per second. */
export function gigabytesPerSecond({ bytes, milliseconds }: AllReduceFigure): number {
  return bytes / milliseconds / 1e6;
}

/** Returns the measurements as text to pass on. */
export function reportText({ browser, threads, transport, date, figures }: Measured): string {
  return [
    `Shardwise in a page, ${date}`,
    browser,
    `${threads} threads`,
    ...(transport === '' ? [] : [`ranks communicate by ${transport}`]),
    ...figures.map(lineOf),
  ].join('\n');
}

function lineOf(figure: Figure): string {
  switch (figure.kind) {
    case 'product':
      return `${figure.device} f32 ${figure.size} x ${figure.size}: ${millisecondsText(figure.milliseconds)}, ${gigaflops(figure).toFixed(1)} GFLOP/s`;
    case 'training':
      return `${figure.device} GPT 3.3 M, ranks: ${figure.ranks}: ${millisecondsText(figure.stepMs)} a step, ${Math.round(figure.tokensPerSecond)} tokens/s`;
    case 'allReduce':
      return `all-reduce of ${bytesText(figure.bytes)}, ranks: ${figure.ranks}: ${millisecondsText(figure.milliseconds)}, ${gigabytesPerSecond(figure).toFixed(2)} GB/s`;
    default:
      return figure satisfies never;
  }
}
