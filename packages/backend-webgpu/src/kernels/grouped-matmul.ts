import type { Instruction } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';
import type { Kernel } from '../emit/kernel.ts';
import { inputAt, type Values } from '../program/values.ts';
import { pointwise } from './pointwise.ts';

type Of<Op extends Instruction['op']> = Extract<Instruction, { op: Op }>;

/**
 * Multiplies each row with the matrix of its group, which each thread looks up for its row. The result is 0 for rows of
 * no group.
 */
export function groupedMatmul(
  values: Values,
  root: number,
  instruction: Of<'groupedMatmul'>,
  reads: readonly number[],
): Kernel {
  const [x, w, counts] = [0, 1, 2].map((at) => inputAt(instruction, at));
  if (x === undefined || w === undefined || counts === undefined) throw new RangeError('3 inputs');
  const { transposeB } = instruction.params;
  const depth = values.shape(x)[1] ?? 0;
  return pointwise(values, [root], reads, instruction.op, (emitter, _, linear) => {
    const [row = '0u', column = '0u'] = emitter.dims({ linear }, instruction.shape);
    const own = emitter.fresh();
    emitter.line(`var ${own} = -1;`);
    forEachGroup(emitter, values, counts, (inner, { group, end }) => {
      inner.line(`if (${own} < 0 && i32(${row}) < ${end}) { ${own} = i32(${group}); }`);
    });
    const sum = emitter.fresh();
    emitter.line(`var ${sum} = 0f;`);
    const inner = emitter.inner();
    const k = emitter.fresh();
    const group = `u32(${own})`;
    const weight = inner.value(w, { dims: transposeB ? [group, column, k] : [group, k, column] });
    inner.line(`${sum} += ${inner.value(x, { dims: [row, k] })} * ${weight};`);
    const first = `select(0u, ${depth}u, ${own} < 0)`;
    emitter.line(`for (var ${k} = ${first}; ${k} < ${depth}u; ${k}++) {\n${inner.text}\n}`);
    return sum;
  });
}

/**
 * Multiplies, for each group, its rows of a, transposed, with its rows of b. Each thread sums over the rows of its
 * group.
 */
export function groupedMatmulWeight(
  values: Values,
  root: number,
  instruction: Of<'groupedMatmulWeight'>,
  reads: readonly number[],
): Kernel {
  const [a, b, counts] = [0, 1, 2].map((at) => inputAt(instruction, at));
  if (a === undefined || b === undefined || counts === undefined) throw new RangeError('3 inputs');
  const rows = values.shape(a)[0] ?? 0;
  return pointwise(values, [root], reads, instruction.op, (emitter, _, linear) => {
    const [own = '0u', k = '0u', column = '0u'] = emitter.dims({ linear }, instruction.shape);
    const [first, last] = [emitter.fresh(), emitter.fresh()];
    emitter.line(`var ${first} = 0; var ${last} = 0;`);
    forEachGroup(emitter, values, counts, (inner, { group, start, end }) => {
      inner.line(`if (${group} == ${own}) { ${first} = ${start}; ${last} = ${end}; }`);
    });
    const sum = emitter.fresh();
    emitter.line(`var ${sum} = 0f;`);
    const inner = emitter.inner();
    const row = emitter.fresh();
    const at = inner.let(`u32(${row})`);
    const terms = [inner.value(a, { dims: [at, k] }), inner.value(b, { dims: [at, column] })];
    inner.line(`${sum} += ${terms.join(' * ')};`);
    emitter.line(
      `for (var ${row} = ${first}; ${row} < min(${last}, ${rows}); ${row}++) {\n${inner.text}\n}`,
    );
    return sum;
  });
}

interface GroupNames {
  readonly group: string;
  /** The first row of the group, and one more than its last row. */
  readonly start: string;
  readonly end: string;
}

function forEachGroup(
  emitter: Emitter,
  values: Values,
  counts: number,
  write: (inner: Emitter, names: GroupNames) => void,
): void {
  const [group, start] = [emitter.fresh(), emitter.fresh()];
  const inner = emitter.inner();
  const end = inner.let(`${start} + ${inner.value(counts, { linear: group })}`);
  write(inner, { group, start, end });
  inner.line(`${start} = ${end};`);
  emitter.line(`var ${start} = 0;`);
  const groups = values.shape(counts)[0] ?? 0;
  emitter.line(`for (var ${group} = 0u; ${group} < ${groups}u; ${group}++) {\n${inner.text}\n}`);
}
