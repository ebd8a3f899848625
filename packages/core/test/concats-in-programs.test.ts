import { interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inEra } from '../src/graph/create-node.ts';
import { LineMesh } from '../src/mesh.ts';
import { setRank } from '../src/rank.ts';
import type { Backend } from '../src/spec/backend.ts';
import { BackendError } from '../src/spec/errors.ts';
import { allGather, allReduce, reduceScatter, reinterpret } from '../src/tensor/collectives.ts';
import { concat, fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { groupBesideZeros } from './group-beside-zeros.ts';

/** A row has more bytes than alignment asks for, and three rows are more than a small value, which would be kept. */
const WIDTH = 88;
/** No value is so large that another one may begin behind it. */
const APART_BYTES = 2 ** 14;
const MAX_ROWS = 24;

interface Choice {
  readonly kind:
    | 'neg'
    | 'add'
    | 'concat'
    | 'tiles'
    | 'half'
    | 'reduce'
    | 'gather'
    | 'scatter'
    | 'assign';
  /** Values that are read, counted from the youngest. */
  readonly reads: readonly [number, number, number];
  readonly era: number;
  readonly isKept: boolean;
}

const programs: fc.Arbitrary<readonly Choice[]> = fc.array(
  fc.record({
    kind: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom<Choice['kind']>('neg', 'concat', 'tiles') },
      {
        weight: 3,
        arbitrary: fc.constantFrom<Choice['kind']>(
          'add',
          'half',
          'reduce',
          'gather',
          'scatter',
          'assign',
        ),
      },
    ),
    reads: fc.tuple(fc.nat(3), fc.nat(3), fc.nat(5)),
    era: fc.nat(3),
    isKept: fc.nat(3).map((number) => number === 0),
  }),
  { minLength: 4, maxLength: 20 },
);

/** What a program keeps and updates, and the number of concatenations that its device computed. */
async function outcomeOf(choices: readonly Choice[], alignment: number) {
  const device = interpreter();
  let concats = 0;
  const backend: Backend = {
    ...device,
    limits: { ...device.limits, alignment },
    compile: (program) => {
      concats += program.instructions.filter(({ op }) => op === 'concat').length;
      return device.compile(program);
    },
  };
  setRank({ device: backend, mesh: new LineMesh('dp', groupBesideZeros) });
  const leaves = [4, 6, 8].map((rows) => {
    const numbers = Float32Array.from({ length: rows * WIDTH }, (_, i) => rows + i / 7);
    return fromData(numbers, [rows, WIDTH], 'f32').makeResident();
  });
  const values: Tensor[] = [...leaves];
  const kept: Tensor[] = [];
  for (const { kind, reads, era, isKept } of choices) {
    const picked = reads.map((back) => values.at(-1 - (back % values.length)) ?? values[0]);
    const [x, y, z] = picked;
    if (x === undefined || y === undefined || z === undefined) break;
    const made = inEra(era, () => operations[kind]({ x, y, z, leaves, number: values.length }));
    if (made === null) continue;
    values.push(made);
    if (isKept) kept.push(made.retain());
  }
  const last = values.at(-1);
  await last?.realize();
  const results: string[] = [];
  for (const each of [...kept, ...leaves]) {
    const { buffer } = Float32Array.from(await each.data(), Number);
    results.push(Buffer.from(buffer).toString('base64'));
  }
  return { results, concats };
}

/** What an operation of a program is given: values, the leaves, and a number of its own. */
interface Operands {
  readonly x: Tensor;
  readonly y: Tensor;
  readonly z: Tensor;
  readonly leaves: readonly Tensor[];
  readonly number: number;
}

const rowsOf = ({ shape: [rows = 0] }: Tensor): number => rows;
const varying = (x: Tensor): Tensor => reinterpret(x, 'dp', 'replicate', 'varying');

/** The operations of programs. Null: there is no result, or the operands do not fit. */
const operations: Readonly<Record<Choice['kind'], (operands: Operands) => Tensor | null>> = {
  neg: ({ x, number }) => x.mul(number),
  add: ({ x, y }) => (rowsOf(x) === rowsOf(y) ? x.add(y) : x.neg()),
  concat: ({ x, y, z }) => {
    const all = [...new Set([x, y, z])];
    const rows = all.reduce((sum, each) => sum + rowsOf(each), 0);
    return rows > MAX_ROWS ? null : concat(all);
  },
  tiles: ({ x, y, number }) => {
    const tile = Math.floor(rowsOf(x) / 2);
    const parts = [0, tile].map((start) =>
      inEra(10 + number + start, () => x.slice(0, start, start + tile).add(start)),
    );
    return concat([...parts, ...(rowsOf(x) + 4 > MAX_ROWS ? [] : [y.slice(0, 0, 4).neg()])]);
  },
  half: ({ x }) => (rowsOf(x) < 4 ? null : x.slice(0, 0, Math.floor(rowsOf(x) / 2))),
  reduce: ({ x }) => varying(allReduce(x, 'dp')),
  gather: ({ x }) => (rowsOf(x) * 2 > MAX_ROWS ? null : varying(allGather(x, 'dp', 0))),
  scatter: ({ x }) => (rowsOf(x) % 4 === 0 ? reduceScatter(x, 'dp', 0) : null),
  assign: ({ x, leaves }) => {
    const target = leaves.find((leaf) => rowsOf(leaf) === rowsOf(x));
    if (target !== undefined && target !== x) target.assign(x.add(1));
    return null;
  },
};

describe('a program', () => {
  it('has the same results with concatenations in place as with computed ones', async () => {
    let [inPlace, computed] = [0, 0];
    await fc.assert(
      fc.asyncProperty(programs, async (choices) => {
        const found = await outcomeOf(choices, 16);
        const apart = await outcomeOf(choices, APART_BYTES);
        inPlace += apart.concats - found.concats;
        computed += found.concats;
        expect(found.results.join()).toBe(apart.results.join());
      }),
      { numRuns: 60, seed: 7, endOnFailure: true },
    );
    expect(inPlace).toBeGreaterThan(20);
    expect(computed).toBeGreaterThan(20);
  });

  it('that fails in the middle has no concatenation of which an input is missing', async () => {
    const device = interpreter();
    let runs = 0;
    const failing: Backend = {
      ...device,
      compile: async (program) => {
        const executable = await device.compile(program);
        return {
          ...executable,
          run: (...given) =>
            ++runs === 2
              ? Promise.reject(new BackendError({ asked: 'a', found: 'b', todo: 'c' }))
              : executable.run(...given),
        };
      },
    };
    setRank({ device: failing });
    const x = fromData(new Float32Array(4 * WIDTH).fill(3), [4, WIDTH], 'f32').makeResident();
    const both = concat([inEra(1, () => x.neg()), inEra(2, () => x.mul(2))]);
    await expect(both.data()).rejects.toThrow(BackendError);
    expect(Number((await concat([x.neg(), x]).data()).at(-1))).toBe(3);
  });
});
