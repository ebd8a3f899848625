import { singleGroup } from '@shardwise/collectives';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import * as build from '../src/graph/ops/collective.ts';
import { noGrad } from '../src/graph/create-node.ts';
import type { Node } from '../src/graph/node.ts';
import { LineMesh } from '../src/mesh.ts';
import { Parameter } from '../src/nn/parameter/parameter.ts';
import { setRank } from '../src/rank.ts';
import { LayoutError } from '../src/spec/errors.ts';
import type { AxisType } from '../src/spec/op.ts';
import {
  allGather,
  allReduce,
  reduce,
  reduceScatter,
  reinterpret,
} from '../src/tensor/collectives.ts';
import { fromData, full, ones } from '../src/tensor/create.ts';
import { declareAxisTypes } from '../src/tensor/declare-axis-types.ts';
import { Tensor } from '../src/tensor/tensor.ts';
import { axis, floats, type Letter, letters, operand, typeOf } from './axis-type-operands.ts';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('tp', singleGroup()) }));

const x = floats(2, 2);

/**
 * The type that each collective gives, and the input types that it takes. `r`, `i`, `v` and `p` are types, and an input
 * may also have no known type. Capital letters are accepted only if no gradient comes to the input.
 */
const collectives: Readonly<
  Record<
    string,
    { readonly make: (x: Node) => Node; readonly gives: Letter; readonly takes: string }
  >
> = {
  'allReduce to replicate': {
    make: (node) => build.allReduce(node, axis),
    gives: 'r',
    takes: 'rIvp',
  },
  'allReduce to invariant': {
    make: (node) => build.allReduce(node, axis, { to: 'invariant' }),
    gives: 'i',
    takes: 'rIvp',
  },
  'allGather to replicate': {
    make: (node) => build.allGather(node, axis, 0),
    gives: 'r',
    takes: 'rIv',
  },
  'allGather to invariant': {
    make: (node) => build.allGather(node, axis, 0, 'invariant'),
    gives: 'i',
    takes: 'rIv',
  },
  reduceScatter: { make: (node) => build.reduceScatter(node, axis, 0), gives: 'v', takes: 'rIvp' },
  allToAll: { make: (node) => build.allToAll(node, axis, 0, 1), gives: 'v', takes: 'rIv' },
  broadcast: { make: (node) => build.broadcast(node, axis, 0), gives: 'r', takes: 'rIv' },
  reduce: { make: (node) => build.reduceToRoot(node, axis, 0), gives: 'v', takes: 'rIvp' },
  sendRecv: { make: (node) => build.sendRecv(node, axis, [1, 0]), gives: 'v', takes: 'rIv' },
  localChunk: { make: (node) => build.localChunk(node, axis, 0), gives: 'v', takes: 'Ri' },
  'reinterpret invariant to replicate': {
    make: (node) => build.reinterpret(node, axis, 'invariant', 'replicate'),
    gives: 'r',
    takes: 'Ri',
  },
  'reinterpret replicate to varying': {
    make: (node) => build.reinterpret(node, axis, 'replicate', 'varying'),
    gives: 'v',
    takes: 'rI',
  },
  'reinterpret replicate to partial': {
    make: (node) => build.reinterpret(node, axis, 'replicate', 'partial'),
    gives: 'p',
    takes: 'rI',
  },
  'reinterpret varying to partial': {
    make: (node) => build.reinterpret(node, axis, 'varying', 'partial'),
    gives: 'p',
    takes: 'rIv',
  },
};

describe.each(Object.entries(collectives))('%s', (name, { make, gives, takes }) => {
  test(`gives ${letters[gives]} of what nobody has said anything of, and of numbers`, () => {
    const isCopy = name === 'reinterpret invariant to replicate';
    expect(typeOf(make(operand(x, null)))).toBe(isCopy ? null : letters[gives]);
    expect(typeOf(make(ones([2, 2]).node))).toBe(letters[gives]);
  });

  test.each(['r', 'i', 'v', 'p'] as const)(`takes ${takes}: %s`, (letter) => {
    const node = operand(x, letters[letter]);
    if (takes.includes(letter)) expect(typeOf(make(node))).toBe(letters[gives]);
    else expect(() => make(node)).toThrow(LayoutError);
    if (takes.toLowerCase().includes(letter))
      expect(typeOf(noGrad(() => make(node)))).toBe(letters[gives]);
    else expect(() => noGrad(() => make(node))).toThrow(LayoutError);
  });
});

test.each(['replicate', 'invariant', 'varying', 'partial'] as const)(
  'reinterpret from %s takes only changes whose gradients are right',
  (from) => {
    const known = [
      'invariant replicate',
      'replicate varying',
      'replicate partial',
      'varying partial',
    ];
    for (const to of Object.values(letters)) {
      const change = (): Node => build.reinterpret(operand(x, null), axis, from, to);
      if (known.includes(`${from} ${to}`)) expect(change).not.toThrow();
      else expect(change).toThrow(/there are invariant to replicate/u);
    }
  },
);

describe('a sum or a gathering of what all ranks have alike', () => {
  const same = (): Tensor => declareAxisTypes(full([2, 2], 1).add(1), { tp: 'replicate' });

  test('is refused, as it would be a multiple or copies', () => {
    expect(() => allReduce(same(), 'tp')).toThrow(/the value times the number of ranks/u);
    expect(() => reduceScatter(same(), 'tp', 0)).toThrow(/the value times the number of ranks/u);
    expect(() => reduce(same(), 'tp')).toThrow(/the value times the number of ranks/u);
    expect(() => allGather(same(), 'tp', 0)).toThrow(/copies of it/u);
    expect(() => allReduce(allReduce(ones([2]), 'tp'), 'tp')).toThrow(LayoutError);
  });

  test('may be meant', () => {
    const meant = reinterpret(same(), 'tp', 'replicate', 'varying');
    expect(typeOf(allReduce(meant, 'tp').node)).toBe('replicate');
    expect(typeOf(allGather(meant, 'tp', 0).node)).toBe('replicate');
  });

  test('is a mean, or a count of the ranks', () => {
    expect(typeOf(allReduce(same(), 'tp', { reduce: 'avg' }).node)).toBe('replicate');
    expect(typeOf(allReduce(ones([]), 'tp').node)).toBe('replicate');
  });
});

describe('an update', () => {
  const stored = (target: AxisType | null, value: AxisType | null): string | null => {
    const leaf = new Tensor(operand(x, target));
    leaf.assign(new Tensor(operand(x, value)));
    return typeOf(leaf.node);
  };

  test.each([
    ['replicate', 'replicate'],
    ['replicate', 'invariant'],
    ['replicate', null],
    ['invariant', 'replicate'],
    ['invariant', 'invariant'],
    ['invariant', null],
    ['varying', 'replicate'],
    ['varying', 'invariant'],
    ['varying', 'varying'],
    ['varying', null],
    ['partial', 'partial'],
  ] as const)('of a %s leaf by a value that is %s leaves it what it is', (target, value) => {
    expect(stored(target, value)).toBe(target);
  });

  test.each([
    ['replicate', 'varying'],
    ['replicate', 'partial'],
    ['invariant', 'varying'],
    ['invariant', 'partial'],
    ['varying', 'partial'],
    ['partial', 'replicate'],
    ['partial', 'varying'],
  ] as const)('of a %s leaf by a value that is %s is refused', (target, value) => {
    expect(() => stored(target, value)).toThrow(LayoutError);
  });

  test('of a leaf of which nobody has said anything has the type of the value, where it does not train', () => {
    const update = (type: AxisType | null, trains: boolean): string | null => {
      const leaf = new Tensor(operand(x, null, { trains }));
      return typeOf(leaf.assign(new Tensor(operand(x, type))).node);
    };
    expect(update('varying', false)).toBe('varying');
    expect(update(null, false)).toBeNull();
    // If an update is the same on all ranks, it may belong to an invariant or to a replicate parameter.
    expect(update('replicate', true)).toBeNull();
  });

  test('is no declaration for the next one', () => {
    const leaf = new Tensor(operand(x, null, { trains: false }));
    leaf.assign(new Tensor(operand(x, 'replicate')));
    expect(typeOf(leaf.assign(new Tensor(operand(x, 'varying'))).node)).toBe('varying');
  });
});

describe('a declaration', () => {
  test('is refused where it contradicts an earlier one, or what is known', () => {
    const weight = declareAxisTypes(
      new Parameter(new Float32Array(4), [2, 2]),
      { tp: 'replicate' },
      'up.weight',
    );
    expect(() => declareAxisTypes(weight, { tp: 'replicate' })).not.toThrow();
    expect(() => declareAxisTypes(weight, { tp: 'varying' }, 'up.weight')).toThrow(
      /up.weight as varying on the axis 'tp': it is 'up.weight' that is replicate/u,
    );
    expect(() => declareAxisTypes(weight.mul(2), { tp: 'varying' })).toThrow(LayoutError);
  });

  test('is withdrawn by null, and another one made', () => {
    const weight = declareAxisTypes(new Parameter(new Float32Array(4), [2, 2]), {
      tp: 'replicate',
    });
    expect(declareAxisTypes(weight, { tp: null }).node.axisTypes).toBeNull();
    expect(typeOf(declareAxisTypes(weight, { tp: 'varying' }).node)).toBe('varying');
  });

  test('says that numbers of the program depend on the rank', () => {
    const offsets = declareAxisTypes(full([2], 7), { tp: 'varying' });
    expect(typeOf(ones([2]).add(offsets).node)).toBe('varying');
  });

  test('holds for zeros that become a leaf, and for a leaf with an update that is not made yet', () => {
    const state = declareAxisTypes(full([2], 0), { tp: 'replicate' });
    expect(typeOf(state.makeResident().node)).toBe('replicate');
    expect(full([2], 0).makeResident().node.axisTypes).toBeNull();
    const weight = new Parameter(new Float32Array(2), [2]);
    weight.assign(weight.mul(2));
    declareAxisTypes(weight, { tp: 'replicate' });
    const varying = new Tensor(operand(floats(2), 'varying'));
    expect(() => weight.assign(varying)).toThrow(LayoutError);
  });

  test('is refused for an axis that the mesh has not, and a type that there is not', () => {
    const weight = new Parameter(new Float32Array(1), [1]);
    expect(() => declareAxisTypes(weight, { pp: 'replicate' })).toThrow(/axis 'pp'/u);
    const types = JSON.parse('{ "tp": "sharded" }');
    expect(() => declareAxisTypes(weight, types)).toThrow(
      /one of replicate, invariant, varying, partial/u,
    );
  });
});

describe('the error', () => {
  const weight = (type: AxisType): Tensor =>
    declareAxisTypes(
      new Parameter(new Float32Array(4), [2, 2]),
      { tp: type },
      'blocks.0.up.weight',
    );
  const fault = (body: () => unknown): LayoutError => {
    try {
      body();
    } catch (error) {
      if (error instanceof LayoutError) return error;
      throw error;
    }
    throw new Error('nothing was thrown');
  };

  test('names the op, the axis, the types, what the values are made of, its module and the line', () => {
    const product = weight('invariant').mul(2);
    const part = new Tensor(operand(x, 'varying'));
    const error = fault(() => product.matmul(part));
    expect(error.fields).toMatchObject({
      op: 'matmul',
      axis: 'tp',
      types: ['invariant', 'varying'],
      names: ['blocks.0.up.weight', null],
      module: 'blocks.0.up',
    });
    expect(error.fields.line).toMatch(/axis-type-claims\.test\.ts:\d+:\d+$/u);
    expect(error.message).toMatch(
      /^matmul at \S+, of a value that is invariant on the axis 'tp' \(made of 'blocks.0.up.weight'\) and a value that is varying/u,
    );
    expect(error.message).toContain("reinterpret(x, 'tp', 'invariant', 'replicate')");
  });

  test('names the collective whose claim is not true', () => {
    const error = fault(() => reinterpret(weight('varying'), 'tp', 'invariant', 'replicate'));
    expect(error.message).toMatch(
      /^reinterpret at \S+, of 'blocks.0.up.weight' that is varying on the axis 'tp': it takes what is invariant there/u,
    );
  });
});

describe('a gradient', () => {
  const leaf = (type: AxisType): Tensor =>
    declareAxisTypes(new Parameter(new Float32Array(2), [2]), { tp: type }, 'norm.weight');
  const data = (): Tensor => fromData(new Float32Array(2), [2], 'f32');
  const gradientType = (weight: Tensor): string | null =>
    weight.grad === null ? null : typeOf(weight.grad.node);

  test('of a replicate leaf is a term of a sum, of an invariant one is the same on all ranks', () => {
    const shared = leaf('replicate');
    shared
      .mul(declareAxisTypes(data(), { tp: 'varying' }))
      .sum()
      .backward();
    expect(gradientType(shared)).toBe('varying');
    const whole = leaf('invariant');
    const own = reinterpret(whole, 'tp', 'invariant', 'replicate').mul(
      declareAxisTypes(data(), { tp: 'varying' }),
    );
    allReduce(own, 'tp', { to: 'invariant' }).square().sum().backward();
    expect(gradientType(whole)).toBe('invariant');
  });

  test('of parts that are sums, terms and equal on all ranks is a sum over ranks', () => {
    const weight = leaf('replicate');
    const own = declareAxisTypes(data(), { tp: 'varying' });
    const copies = reinterpret(weight, 'tp', 'replicate', 'varying');
    copies.mul(own).add(weight.mul(own)).sum().add(weight.square().sum()).backward();
    expect(gradientType(weight)).toBe('partial');
    weight.square().sum().backward();
    expect(gradientType(weight)).toBe('partial');
  });

  test('that would have an invariant leaf drift apart is refused, where data without a type hid it', () => {
    const weight = leaf('invariant');
    const loss = weight
      .mul(data())
      .mul(declareAxisTypes(data(), { tp: 'varying' }))
      .sum();
    expect(() => loss.backward()).toThrow(
      /a gradient of 'norm.weight' that is invariant.*the gradient is varying there, and not invariant/u,
    );
  });

  test('that was not averaged is refused by the update', () => {
    const weight = leaf('replicate');
    weight
      .mul(declareAxisTypes(data(), { tp: 'varying' }))
      .sum()
      .backward();
    const gradient = weight.grad ?? data();
    expect(() => weight.assign(weight.sub(gradient.mul(0.1)))).toThrow(
      /assign at \S+, to 'norm.weight'/u,
    );
    const mean = allReduce(gradient, 'tp', { reduce: 'avg' });
    expect(() => weight.assign(weight.sub(mean.mul(0.1)))).not.toThrow();
  });
});
