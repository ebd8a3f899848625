import type { Instruction } from '@shardwise/core/spec';
import { type Kernel, spread } from '../emit/kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import { scatter } from './along-dim.ts';

const LANES = 64;

/**
 * Adds rows to the rows that indices point to. A group of threads makes a row of the result. It looks for the number of
 * its row among the indices, as many at a time as it has threads, and adds the rows that it finds in their order. The
 * gradient of an embedding therefore reads each index once for each row, and no sum depends on the order of threads.
 */
export function indexAdd(
  values: Values,
  root: number,
  instruction: Extract<Instruction, { op: 'indexAdd' }>,
  reads: readonly number[],
): Kernel {
  const { dim } = instruction.params;
  const { shape, dtype } = instruction;
  const [x, index, source] = [0, 1, 2].map((at) => inputAt(instruction, at));
  if (x === undefined || index === undefined || source === undefined)
    throw new RangeError('three inputs');
  const outer = shape.slice(0, dim);
  const inner = shape.slice(dim + 1);
  const [rows, columns] = [shape[dim] ?? 1, countOf(inner)];
  const indices = countOf(values.shape(index));
  // With so few columns, or without indices, most threads would have nothing to do.
  if (columns < LANES / 4 || indices === 0) return scatter(values, root, instruction, reads);
  const groups = countOf(outer) * rows;
  return {
    label: 'indexAdd',
    reads,
    writes: [root],
    workgroup: [LANES, 1],
    groups: spread(groups),
    numbers: [groups],
    along: { dim: 'all', elements: columns, root, inputs: new Map([[x, columns]]) },
    shared: `var<workgroup> hits: array<u32, ${LANES}>;\nvar<workgroup> hitCount: atomic<u32>;`,
    body: ({ emitter, place, number }) => {
      const group = emitter.let('group.x + group.y * groups.x');
      emitter.line(`if (${group} >= ${number(0)}) { return; }`);
      const row = emitter.let(`${group} % ${rows}u`);
      const before = emitter.dims({ linear: emitter.let(`${group} / ${rows}u`) }, outer);
      const { read, write } = place(root);
      const { load, store } = storageOf[dtype];
      const target = `${group} * ${columns}u + column`;
      const eachColumn = (body: string): string =>
        `for (var column = thread.x; column < ${columns}u; column += ${LANES}u) {\n${body}\n}`;
      const start = emitter.inner();
      const own = start.value(x, { linear: `${group} * ${columns}u + column` });
      start.line(write(target, store(own)));
      emitter.line(eachColumn(start.text));
      const look = emitter.inner();
      look.line('if (thread.x == 0u) { atomicStore(&hitCount, 0u); }');
      look.line('workgroupBarrier();');
      look.line('let place = first + thread.x;');
      const chosen = look.inner();
      const at = chosen.value(index, { linear: 'place' });
      look.line('hits[thread.x] = 0u;');
      look.line(`if (place < ${indices}u) {\n${chosen.text}`);
      look.line(
        `if (bitcast<u32>(${at}) == ${row}) { hits[thread.x] = 1u; atomicAdd(&hitCount, 1u); }\n}`,
      );
      look.line('workgroupBarrier();');
      const add = look.inner();
      const columnDims = add.dims({ linear: 'column' }, inner);
      const element = add.value(source, { dims: [...before, 'found', ...columnDims] });
      add.line(write(target, store(`${load(read(target))} + ${element}`)));
      look.line('if (atomicLoad(&hitCount) > 0u) {');
      look.line(`for (var hit = 0u; hit < ${LANES}u; hit++) {`);
      look.line(
        `if (hits[hit] == 0u) { continue; }\nlet found = first + hit;\n${eachColumn(add.text)}\n}\n}`,
      );
      look.line('workgroupBarrier();');
      emitter.line(
        `for (var first = 0u; first < ${indices}u; first += ${LANES}u) {\n${look.text}\n}`,
      );
    },
  };
}
