import type { Instruction, Shape } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';
import { type Kernel, spread } from '../emit/kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';
import { literal } from '../wgsl/registers.ts';
import { type RowOp, rowPrograms } from './row-programs.ts';

export type RowInstruction = Extract<Instruction, { op: RowOp }>;

export function isRowInstruction(instruction: Instruction): instruction is RowInstruction {
  return instruction.op in rowPrograms;
}

const MAX_LANES = 256;
const MIN_THREADS = 64;
/**
 * A thread keeps up to this many elements of a row in registers. The elements of a longer row are computed again for
 * each pass.
 */
const MAX_KEPT = 8;

/** Calls `write` for each element of a row that one thread has. `write` emits the text for that element. */
type ForEach = (write: (inner: Emitter, column: string) => void) => void;

/**
 * Softmax, norms and their gradients. Several threads share a row. They walk over it once for each sum or maximum, and
 * once for the result. This kernel also computes inputs that do not lie in memory.
 */
export function rows(
  values: Values,
  root: number,
  instruction: RowInstruction,
  reads: readonly number[],
): Kernel {
  const { shape } = instruction;
  const width = shape.at(-1) ?? 1;
  const rowCount = countOf(shape) / width;
  const lanes = lanesFor(width);
  const threads = Math.max(MIN_THREADS, lanes);
  const perGroup = threads / lanes;
  const perThread = Math.ceil(width / lanes);
  return {
    label: instruction.op,
    reads,
    writes: [root],
    workgroup: [threads, 1],
    groups: spread(Math.ceil(rowCount / perGroup)),
    numbers: [rowCount],
    along: {
      dim: 'all',
      elements: perGroup * width,
      root,
      inputs: new Map(
        instruction.inputs
          .filter((id) => values.shape(id).length > 1)
          .map((id) => [id, perGroup * width]),
      ),
    },
    shared: `var<workgroup> partial: array<f32, ${threads}>;`,
    body: ({ emitter, place, number }) => {
      const lane = emitter.let(`thread.x % ${lanes}u`);
      const row = emitter.let(
        `(group.x + group.y * groups.x) * ${perGroup}u + thread.x / ${lanes}u`,
      );
      // Threads after the last row take part with the last one, because all threads of a group wait for each other.
      const valid = emitter.let(`min(${row}, ${number(0)} - 1u)`);
      const forEach = elementsOf(emitter, { lane, lanes, perThread, width });
      const input = (at: number, inner: Emitter, column: string): string => {
        const id = inputAt(instruction, at);
        const linear = inner.let(`${valid} * ${width}u + ${column}`);
        return inner.value(id, values.shape(id).length === 1 ? { dims: [column] } : { linear });
      };
      const fold = (
        kind: 'sum' | 'max',
        term: (inner: Emitter, column: string) => string,
      ): string => {
        const folded = emitter.fresh();
        const least = kind === 'sum' ? '0.0' : literal(-Infinity, 'f32');
        const join = (a: string, b: string): string =>
          kind === 'sum' ? `${a} + ${b}` : `larger_of(${a}, ${b})`;
        emitter.line(`var ${folded} = ${least};`);
        forEach((inner, column) => {
          const own = term(inner, column);
          inner.line(`if (${column} < ${width}u) { ${folded} = ${join(folded, own)}; }`);
        });
        emitter.line(`partial[thread.x] = ${folded};`);
        emitter.line('workgroupBarrier();');
        for (let half = lanes / 2; half >= 1; half /= 2) {
          const sum = join('partial[thread.x]', `partial[thread.x + ${half}u]`);
          emitter.line(`if (${lane} < ${half}u) { partial[thread.x] = ${sum}; }`);
          emitter.line('workgroupBarrier();');
        }
        emitter.line(`${folded} = partial[thread.x - ${lane}];`);
        // The next fold overwrites `partial`, which other threads may still be reading.
        emitter.line('workgroupBarrier();');
        return folded;
      };
      const result = rowPrograms[instruction.op]({
        emitter,
        width,
        eps: 'eps' in instruction.params ? instruction.params.eps : 0,
        input,
        fold,
      });
      const { write } = place(root);
      forEach((inner, column) => {
        const element = result(inner, column);
        const at = inner.let(`${valid} * ${width}u + ${column}`);
        const stored = write(at, `bitcast<u32>(${element})`);
        inner.line(`if (${row} < ${number(0)} && ${column} < ${width}u) { ${stored} }`);
      });
    },
  };
}

/** Whether each element of rows of this shape is computed only once. */
export function keepsRows(shape: Shape): boolean {
  return (shape.at(-1) ?? 1) <= MAX_KEPT * MAX_LANES;
}

/** The number of threads of a row. It is a power of two, such that a thread has about four elements. */
function lanesFor(width: number): number {
  return Math.min(MAX_LANES, 2 ** Math.ceil(Math.log2(Math.max(1, width / 4))));
}

interface RowShape {
  readonly lane: string;
  readonly lanes: number;
  readonly perThread: number;
  readonly width: number;
}

/**
 * Visits the elements of a thread. The loop over a short row is unrolled, so that a pass can use what an earlier one
 * has computed.
 */
function elementsOf(emitter: Emitter, { lane, lanes, perThread, width }: RowShape): ForEach {
  if (perThread <= MAX_KEPT) {
    return (write) => {
      for (let part = 0; part < perThread; part++)
        write(emitter, part === 0 ? lane : emitter.let(`${lane} + ${part * lanes}u`));
    };
  }
  return (write) => {
    const column = emitter.fresh();
    const inner = emitter.inner();
    write(inner, column);
    emitter.line(
      `for (var ${column} = ${lane}; ${column} < ${width}u; ${column} += ${lanes}u) {\n${inner.text}\n}`,
    );
  };
}
