import type { Instruction } from '@shardwise/core/spec';
import { type Kernel, spread } from '../emit/kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import { pointwise } from './pointwise.ts';

type Along<Op extends Instruction['op']> = Extract<Instruction, { op: Op }>;

const LANES = 64;

/**
 * Running sums, with a thread for each line. The result has to be as exact as in f64, so what an addition rounds away
 * is added to the next term. A compiler may take that for 0, as it is for exact numbers. So each total takes a bit from
 * a number of which only the host knows that it is less than 2³¹.
 */
export function cumsum(
  values: Values,
  root: number,
  instruction: Along<'cumsum'>,
  reads: readonly number[],
): Kernel {
  const { dim, reverse } = instruction.params;
  const { shape, dtype } = instruction;
  const size = shape[dim] ?? 1;
  const lines = countOf(shape) / Math.max(1, size);
  const others = shape.with(dim, 1);
  return {
    label: 'cumsum',
    reads,
    writes: [root],
    workgroup: [LANES, 1],
    groups: spread(Math.ceil(lines / LANES)),
    numbers: [lines],
    body: ({ emitter, place, number }) => {
      const line = emitter.let(`(group.x + group.y * groups.x) * ${LANES}u + thread.x`);
      emitter.line(`if (${line} >= ${number(0)}) { return; }`);
      const kept = emitter.dims({ linear: line }, others);
      const { register, store } = storageOf[dtype];
      emitter.line(`var sum = ${register}(0); var lost = ${register}(0);`);
      const inner = emitter.inner();
      const at = inner.let(reverse ? `${size - 1}u - step` : 'step');
      const dims = kept.with(dim, at);
      const term = inner.value(inputAt(instruction, 0), { dims });
      if (dtype === 'f32') {
        inner.line(`let total = opaque_of(sum + ${term});`);
        inner.line(
          `let error = select((${term} - total) + sum, (sum - total) + ${term}, abs(sum) >= abs(${term}));`,
        );
        inner.line('sum = total; if (!is_nan(error)) { lost += error; }');
      } else {
        inner.line(`sum += ${term};`);
      }
      inner.line(place(root).write(inner.linear({ dims }, shape), store('sum + lost')));
      emitter.line(`for (var step = 0u; step < ${size}u; step++) {\n${inner.text}\n}`);
    },
  };
}

/** The order of elements along a dim. A thread for each element counts the elements that come before it. */
export function argSort(
  values: Values,
  root: number,
  instruction: Along<'argSort'>,
  reads: readonly number[],
): Kernel {
  const { dim, descending } = instruction.params;
  const { shape } = instruction;
  const size = shape[dim] ?? 1;
  const input = inputAt(instruction, 0);
  const { dtype } = values.type(input);
  const count = countOf(shape);
  const nan = (x: string): string => (dtype === 'f32' ? `is_nan(${x})` : 'false');
  const as = (x: string): string => (dtype === 'bool' ? `u32(${x})` : x);
  const less = (a: string, b: string): string =>
    `((!${nan(a)} && ${nan(b)}) || (!${nan(a)} && !${nan(b)} && ${as(a)} < ${as(b)}))`;
  return {
    label: 'argSort',
    reads,
    writes: [root],
    workgroup: [LANES, 1],
    groups: spread(Math.ceil(count / LANES)),
    numbers: [count],
    body: ({ emitter, place, number }) => {
      const element = emitter.let(`(group.x + group.y * groups.x) * ${LANES}u + thread.x`);
      emitter.line(`if (${element} >= ${number(0)}) { return; }`);
      const dims = emitter.dims({ linear: element }, shape);
      const own = emitter.value(input, { dims });
      const at = dims[dim] ?? '0u';
      emitter.line('var rank = 0u;');
      const inner = emitter.inner();
      const other = inner.value(input, { dims: dims.with(dim, 'other') });
      const [before, after] = descending
        ? [less(own, other), less(other, own)]
        : [less(other, own), less(own, other)];
      inner.line(`if (${before} || (!${after} && other < ${at})) { rank++; }`);
      emitter.line(`for (var other = 0u; other < ${size}u; other++) {\n${inner.text}\n}`);
      const target = emitter.linear({ dims: dims.with(dim, 'rank') }, shape);
      emitter.line(place(root).write(target, at));
    },
  };
}

/**
 * Sums and replacements by index. A thread for each element of the result looks for the indices that point to it, in
 * their order.
 */
export function scatter(
  values: Values,
  root: number,
  instruction: Along<'scatterAdd' | 'scatter' | 'indexAdd'>,
  reads: readonly number[],
): Kernel {
  const x = inputAt(instruction, 0);
  const index = inputAt(instruction, 1);
  const source = inputAt(instruction, 2);
  const { dim } = instruction.params;
  const sizes = values.shape(index);
  const isRows = instruction.op === 'indexAdd';
  const steps = isRows ? (sizes[0] ?? 0) : (sizes[dim] ?? 0);
  return pointwise(values, [root], reads, instruction.op, (emitter, _, linear) => {
    const dims = emitter.dims({ linear }, instruction.shape);
    const result = emitter.fresh();
    emitter.line(`var ${result} = ${emitter.value(x, { linear })};`);
    if (countOf(sizes) === 0) return result;
    // Along the dims other than `dim` there may be fewer indices than elements.
    const inside = isRows
      ? []
      : dims.flatMap((at, other) =>
          other === dim || sizes[other] === instruction.shape[other]
            ? []
            : [`${at} < ${sizes[other] ?? 0}u`],
        );
    const step = emitter.fresh();
    const inner = emitter.inner();
    const at = dims.with(dim, step);
    const chosen = inner.value(index, isRows ? { linear: step } : { dims: at });
    inner.line(`if (bitcast<u32>(${chosen}) == ${dims[dim] ?? '0u'}) {`);
    const found = inner.inner();
    const element = found.value(source, { dims: at });
    found.line(`${result} ${instruction.op === 'scatter' ? '=' : '+='} ${element};`);
    inner.line(`${found.text}\n}`);
    const loop = `for (var ${step} = 0u; ${step} < ${steps}u; ${step}++) {\n${inner.text}\n}`;
    emitter.line(inside.length === 0 ? loop : `if (${inside.join(' && ')}) {\n${loop}\n}`);
    return result;
  });
}
