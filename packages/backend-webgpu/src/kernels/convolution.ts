import type { Instruction } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';
import type { Kernel } from '../emit/kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';
import { pointwise } from './pointwise.ts';

export type ConvolutionInstruction = Extract<
  Instruction,
  { op: 'conv2d' | 'conv2dInput' | 'conv2dWeight' }
>;

interface Loops {
  /** The sizes of the loops that a thread makes for an element, by the names of their variables. */
  readonly sizes: Readonly<Record<string, number>>;
  /**
   * An expression for one product of the sum, in terms of the loops' variables. It is 0 where the window leaves the
   * input.
   */
  readonly term: (emitter: Emitter, at: readonly string[]) => string;
}

/** Convolutions and their gradients. A thread for each element sums its products. */
export function convolution(
  values: Values,
  root: number,
  instruction: ConvolutionInstruction,
  reads: readonly number[],
): Kernel {
  const { sizes, term } = loopsOf(values, instruction);
  const loops = Object.entries(sizes);
  if (loops.some(([, size]) => size === 0) || countOf(instruction.shape) === 0) {
    return pointwise(values, [root], [], instruction.op, () => '0f');
  }
  return pointwise(values, [root], reads, instruction.op, (emitter, _, linear) => {
    const sum = emitter.fresh();
    emitter.line(`var ${sum} = 0f;`);
    const at = emitter.dims({ linear }, instruction.shape);
    const inner = emitter.inner();
    inner.line(`${sum} += ${term(inner, at)};`);
    const open = loops.map(
      ([name, size]) => `for (var ${name} = 0u; ${name} < ${size}u; ${name}++) {`,
    );
    emitter.line(`${open.join('\n')}\n${inner.text}\n${loops.map(() => '}').join('\n')}`);
    return sum;
  });
}

function loopsOf(values: Values, instruction: ConvolutionInstruction): Loops {
  const [first, second] = [inputAt(instruction, 0), inputAt(instruction, 1)];
  const { stride, padding, dilation, groups } = instruction.params;
  /**
   * The place in x of element `tap` of the window of output `at`. In the padding, it wraps around and lies beyond the
   * end of x.
   */
  const source = (emitter: Emitter, at: string, tap: string, axis: 0 | 1): string =>
    emitter.let(`${at} * ${stride[axis]}u + ${tap} * ${dilation[axis]}u - ${padding[axis]}u`);
  if (instruction.op === 'conv2d') {
    const [, , height = 0, width = 0] = values.shape(first);
    const [outputs = 1, channels = 0, tall = 0, wide = 0] = values.shape(second);
    return {
      sizes: { channel: channels, tall, wide },
      term: (emitter, [n = '0u', o = '0u', i = '0u', j = '0u']) => {
        const [row, column] = [source(emitter, i, 'tall', 0), source(emitter, j, 'wide', 1)];
        const channel = emitter.let(`${o} / ${outputs / groups}u * ${channels}u + channel`);
        const x = emitter.value(first, { dims: [n, channel, row, column] });
        const w = emitter.value(second, { dims: [o, 'channel', 'tall', 'wide'] });
        return `select(0f, ${x} * ${w}, ${row} < ${height}u && ${column} < ${width}u)`;
      },
    };
  }
  if (instruction.op === 'conv2dInput') {
    const [, , height = 0, width = 0] = values.shape(first);
    const [outputs = 1, channels = 1, tall = 0, wide = 0] = values.shape(second);
    return {
      sizes: { output: outputs / groups, tall, wide },
      term: (emitter, [n = '0u', c = '0u', i = '0u', j = '0u']) => {
        // The output whose window has this element at this tap, and the condition that the stride leads to one.
        const reached = (at: string, tap: string, axis: 0 | 1): readonly [string, string] => {
          const ahead = emitter.let(`${at} + ${padding[axis]}u - ${tap} * ${dilation[axis]}u`);
          return [emitter.let(`${ahead} / ${stride[axis]}u`), `${ahead} % ${stride[axis]}u == 0u`];
        };
        const [[row, rowHit], [column, columnHit]] = [reached(i, 'tall', 0), reached(j, 'wide', 1)];
        const o = emitter.let(`${c} / ${channels}u * ${outputs / groups}u + output`);
        const channel = emitter.let(`${c} % ${channels}u`);
        const dy = emitter.value(first, { dims: [n, o, row, column] });
        const w = emitter.value(second, { dims: [o, channel, 'tall', 'wide'] });
        const inside = [rowHit, columnHit, `${row} < ${height}u`, `${column} < ${width}u`];
        return `select(0f, ${dy} * ${w}, ${inside.join(' && ')})`;
      },
    };
  }
  const [count = 0, , height = 0, width = 0] = values.shape(first);
  const [, outputs = 1, tall = 0, wide = 0] = values.shape(second);
  const channels = instruction.shape[1] ?? 1;
  return {
    sizes: { row: count, tall, wide },
    term: (emitter, [o = '0u', c = '0u', r = '0u', s = '0u']) => {
      const [y, x] = [source(emitter, 'tall', r, 0), source(emitter, 'wide', s, 1)];
      const channel = emitter.let(`${o} / ${outputs / groups}u * ${channels}u + ${c}`);
      const left = emitter.value(first, { dims: ['row', channel, y, x] });
      const right = emitter.value(second, { dims: ['row', o, 'tall', 'wide'] });
      return `select(0f, ${left} * ${right}, ${y} < ${height}u && ${x} < ${width}u)`;
    },
  };
}
