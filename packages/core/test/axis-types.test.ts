import { singleGroup } from '@shardwise/collectives';
import { type ExampleInput, interpreter, type NamedExample, opExamples } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { unset } from '../src/graph/axis-types.ts';
import * as build from '../src/graph/ops/collective.ts';
import { noGrad } from '../src/graph/create-node.ts';
import { isLinear } from '../src/graph/join-axis-types.ts';
import { none, type Node } from '../src/graph/node.ts';
import { createNodeOf, ops } from '../src/graph/ops/ops.ts';
import { LineMesh } from '../src/mesh.ts';
import { setRank } from '../src/rank.ts';
import { LayoutError } from '../src/spec/errors.ts';
import type { AxisType, Op, OpParams } from '../src/spec/op.ts';
import { fromData, full, ones } from '../src/tensor/create.ts';
import type { HostData } from '../src/tensor/host-data.ts';
import { Tensor } from '../src/tensor/tensor.ts';
import {
  axis,
  floats,
  integers,
  isLetter,
  letters,
  type Operand,
  operand,
  typeOf,
} from './axis-type-operands.ts';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('tp', singleGroup()) }));

/** An op, and the combinations of inputs that may be partial sums while the other inputs are replicate. */
interface Row {
  readonly op: Op;
  readonly params: OpParams[Op];
  readonly inputs: readonly Operand[];
  /** `pr` means the first of two inputs. Other combinations are refused. */
  readonly partial: readonly string[];
}

const x = floats(2, 2);

/** Ops that only the graph has, and transfers. */
const others: readonly Row[] = [
  { op: 'pageOut', params: { store: 0, name: null }, inputs: [x], partial: ['p'] },
  { op: 'pageIn', params: none, inputs: [x], partial: ['p'] },
  { op: 'refresh', params: { source: 0, name: 'a', bucket: 0 }, inputs: [x], partial: [] },
  { op: 'detach', params: none, inputs: [x], partial: ['p'] },
  { op: 'ownGradient', params: none, inputs: [x, x], partial: [] },
  { op: 'takeRows', params: none, inputs: [x, integers()], partial: ['pr'] },
];

function operandOf({ shape, dtype }: ExampleInput): Operand {
  return { shape, dtype: dtype === 'float' ? 'f32' : dtype };
}

/** The patterns that follow from what the entry of an op says. That the op is linear there is tested below. */
function partialOf([op, { params, inputs }]: NamedExample): readonly string[] {
  const { linearIn } = ops[op];
  const isFloat = createNodeOf(
    op,
    params,
    inputs.map((input) => operand(operandOf(input), null)),
  ).dtype.startsWith('f');
  if (inputs.length === 0 || !isFloat || !isLinear(op, params, 'f32')) return [];
  const groups = linearIn === 'all' ? [[...inputs.keys()]] : linearIn;
  return groups.map((group) =>
    inputs.map((_, index) => (group.includes(index) ? 'p' : 'r')).join(''),
  );
}

const examples = opExamples().filter(
  ([op], index, all) => all.findIndex(([other]) => other === op) === index,
);

/** All ops that compute. All of them treat types other than partial alike. */
const rows: readonly Row[] = [
  ...examples.map((example): Row => {
    const [op, { params, inputs }] = example;
    return { op, params, inputs: inputs.map(operandOf), partial: partialOf(example) };
  }),
  ...others,
];

/** Returns all strings of this length over the letters of the alphabet. */
function patterns(alphabet: string, length: number): string[] {
  if (length === 0) return [''];
  return patterns(alphabet, length - 1).flatMap((rest) =>
    Array.from(alphabet, (each) => rest + each),
  );
}

/** Returns deterministic elements that differ for each seed. */
function elements({ shape, dtype }: Operand, seed: number): HostData {
  const length = shape.reduce((count, size) => count * size, 1);
  if (dtype === 'f32') {
    return Float32Array.from({ length }, (_, index) => Math.sin(1 + index * 1.7 + seed * 2.3) + 2);
  }
  const bits = Array.from({ length }, (_, index) => (index + seed) % 2);
  return dtype === 'bool' || dtype === 'u8' ? Uint8Array.from(bits) : Int32Array.from(bits);
}

describe.each(rows)('$op', ({ op, ...row }) => {
  const count = row.inputs.length;
  const make = (pattern: string, trains = true): Node => {
    const inputs = row.inputs.map((each, index) => {
      const letter = pattern[index] ?? '';
      return operand(each, isLetter(letter) ? letters[letter] : null, { trains });
    });
    return createNodeOf(op, row.params, inputs);
  };

  if (count === 0) {
    test('gives numbers of the program, which are the same on all ranks', () => {
      expect(typeOf(make(''))).toBe('uniform');
    });
    return;
  }

  test('of inputs of which nobody has said anything gives such a value', () => {
    expect(make('-'.repeat(count)).axisTypes).toBeNull();
  });

  test.each(['r', 'i', 'v'] as const)(
    'keeps the type of inputs that all are of one: %s',
    (letter) => {
      expect(typeOf(make(letter.repeat(count)))).toBe(letters[letter]);
    },
  );

  test('gives a varying value as soon as one input varies', () => {
    for (const pattern of patterns('rv-', count)) {
      if (pattern.includes('v')) expect(typeOf(make(pattern)), pattern).toBe('varying');
    }
  });

  test('does not know what it gives of an input of which nobody has said anything', () => {
    for (const letter of ['r', 'i']) {
      for (const pattern of patterns(`${letter}-`, count)) {
        if (pattern.includes('-')) expect(make(pattern).axisTypes, pattern).toBeNull();
      }
    }
  });

  const hasGradient = (index: number): boolean =>
    row.inputs[index]?.dtype === 'f32' && make('-'.repeat(count)).dtype.startsWith('f');

  test('refuses an invariant value that is owed a gradient, beside others that vary or are owed one', () => {
    for (const pattern of patterns('irv', count)) {
      const at = (letter: string, index: number): boolean => pattern[index] === letter;
      const indexes = Array.from(pattern, (_, index) => index);
      const invariant = indexes.some((index) => at('i', index) && hasGradient(index));
      const others = indexes.some(
        (index) => at('v', index) || (at('r', index) && hasGradient(index)),
      );
      if (invariant && others) expect(() => make(pattern), pattern).toThrow(LayoutError);
      else expect(() => make(pattern), pattern).not.toThrow();
    }
  });

  test('takes invariant values as replicate ones where no gradient comes to them', () => {
    for (const pattern of patterns('irv', count)) {
      const type = pattern.includes('v')
        ? 'varying'
        : pattern.includes('r')
          ? 'replicate'
          : 'invariant';
      expect(typeOf(make(pattern, false)), pattern).toBe(type);
      expect(typeOf(noGrad(() => make(pattern))), pattern).toBe(type);
    }
  });

  test(`of partial sums takes ${row.partial.join(' and ') || 'none'}`, () => {
    for (const pattern of patterns('rvp', count).filter((each) => each.includes('p'))) {
      if (row.partial.includes(pattern)) expect(typeOf(make(pattern)), pattern).toBe('partial');
      else expect(() => make(pattern), pattern).toThrow(LayoutError);
    }
  });

  if (ops[op].by === 'store') return;

  test.each(row.partial)(
    'of the sum is the sum of what it gives of the terms: %s',
    async (pattern) => {
      /** Computes the op with partial inputs that are the first term, the second term or the sum of both. */
      const result = async (which: 'first' | 'second' | 'sum'): Promise<number[]> => {
        const inputs = row.inputs.map((each, index) => {
          const [first, second] = [elements(each, index), elements(each, index + 10)];
          if (pattern[index] !== 'p' || which === 'first')
            return operand(each, null, { data: first });
          if (which === 'second') return operand(each, null, { data: second });
          const [a, b] = [Array.from(first, Number), Array.from(second, Number)];
          const sum = a.map((value, at) => value + (b[at] ?? Number.NaN));
          return operand(each, null, { data: Float32Array.from(sum) });
        });
        return Array.from(await new Tensor(createNodeOf(op, row.params, inputs)).data(), Number);
      };
      const [first, second, sum] = [
        await result('first'),
        await result('second'),
        await result('sum'),
      ];
      first.forEach((value, at) =>
        expect(value + (second[at] ?? Number.NaN)).toBeCloseTo(sum[at] ?? Number.NaN, 4),
      );
      expect(first.length).toBeGreaterThan(0);
    },
  );
});

describe('a partial sum', () => {
  const partial = (): Tensor => new Tensor(operand(x, 'partial'));

  test('is refused beside an invariant value that is owed a gradient, also in a product', () => {
    const weight = new Tensor(operand(x, 'invariant'));
    expect(() => partial().mul(weight)).toThrow(/invariant on the axis 'tp'.*Sum it first/u);
    expect(typeOf(partial().mul(weight.detach()).node)).toBe('partial');
  });

  test('may be scaled and divided by numbers, but not added to them', () => {
    expect(typeOf(partial().mul(3).div(2).neg().node)).toBe('partial');
    expect(() => partial().add(1)).toThrow(LayoutError);
    expect(() => partial().sub(ones([2, 2]))).toThrow(LayoutError);
  });

  test('may be added to zeros, and be chosen or nothing', () => {
    expect(typeOf(partial().add(0).node)).toBe('partial');
    expect(typeOf(partial().add(full([1, 2], 0)).node)).toBe('partial');
    const condition = fromData(Uint8Array.of(1, 0, 0, 1), [2, 2], 'bool');
    expect(typeOf(condition.where(partial(), 0).node)).toBe('partial');
    expect(() => condition.where(partial(), 1)).toThrow(LayoutError);
  });

  test('may be padded with zeros only', () => {
    const pad = (value: number): Node =>
      createNodeOf('pad', { before: [1, 0], after: [0, 0], value }, [partial().node]);
    expect(typeOf(pad(0))).toBe('partial');
    expect(() => pad(1)).toThrow(LayoutError);
  });

  test('is not rounded: neither converted to integers nor divided as integers', () => {
    expect(() => partial().to('i32')).toThrow(LayoutError);
    const count = new Tensor(operand(integers(2), 'partial'));
    expect(() =>
      createNodeOf('div', none, [count.node, operand(integers(2), 'replicate')]),
    ).toThrow(LayoutError);
    expect(typeOf(count.to('f32').node)).toBe('partial');
  });
});

describe('types of several axes', () => {
  const two = (types: Readonly<Record<string, AxisType>>): Node => {
    const node = operand(x, null);
    for (const [name, type] of Object.entries(types))
      node.axisTypes = (node.axisTypes ?? unset).with(name, type);
    return node;
  };

  test('are inferred each for itself', () => {
    const sum = createNodeOf('add', none, [
      two({ dp: 'replicate', tp: 'varying' }),
      two({ dp: 'varying', tp: 'varying' }),
    ]);
    expect(sum.axisTypes?.byAxis).toEqual(
      new Map([
        ['dp', 'varying'],
        ['tp', 'varying'],
      ]),
    );
  });

  test('are known on an axis where all inputs are, and varying where one is', () => {
    const product = createNodeOf('mul', none, [
      two({ dp: 'replicate', tp: 'varying' }),
      two({ dp: 'replicate' }),
    ]);
    expect(product.axisTypes?.byAxis).toEqual(
      new Map([
        ['dp', 'replicate'],
        ['tp', 'varying'],
      ]),
    );
  });

  test('are one object for values that lie alike', () => {
    const [a, c] = [
      two({ dp: 'replicate', tp: 'varying' }),
      two({ tp: 'varying', dp: 'replicate' }),
    ];
    expect(a.axisTypes).toBe(c.axisTypes);
    expect(createNodeOf('add', none, [a, c]).axisTypes).toBe(a.axisTypes);
  });

  test('on others than its own pass through a collective', () => {
    const gathered = build.allGather(two({ dp: 'partial', tp: 'varying' }), axis, 0, 'invariant');
    expect(gathered.axisTypes?.byAxis).toEqual(
      new Map([
        ['dp', 'partial'],
        ['tp', 'invariant'],
      ]),
    );
  });
});
