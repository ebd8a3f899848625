import { checkGradients, interpreter } from '@shardwise/testing';
import * as fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Node } from '../src/graph/node.ts';
import { checkpoint } from '../src/nn/checkpoint.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { SGD } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import { TensorStateError } from '../src/spec/errors.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

/** A node of a random graph: an op, and the earlier values that it reads, counted from the newest. */
interface Step {
  readonly op: number;
  readonly first: number;
  readonly second: number;
}

const binary = [
  (a: Tensor, b: Tensor) => a.add(b),
  (a: Tensor, b: Tensor) => a.mul(b),
  (a: Tensor, b: Tensor) => a.sub(b.mul(0.5)),
  (a: Tensor, b: Tensor) => a.matmul(b.tanh()),
  (a: Tensor, b: Tensor) => a.softmax().mul(b),
  (a: Tensor) => a.tanh(),
  (a: Tensor) => a.gelu(),
  (a: Tensor) => a.transpose(0, 1),
] as const;

const leafCount = 3;
const steps = fc.array(
  fc.record({
    op: fc.nat(binary.length - 1),
    first: fc.nat(7),
    second: fc.nat(7),
  }),
  { minLength: 2, maxLength: 9 },
);

/** Returns all values of a random graph over some matrices. The leaves come first. */
function grow(leaves: readonly Tensor[], program: readonly Step[]): Tensor[] {
  const values = [...leaves];
  const at = (back: number): Tensor => values.at(-1 - (back % values.length)) as Tensor;
  for (const { op, first, second } of program) {
    values.push((binary[op] ?? binary[0])(at(first), at(second)));
  }
  return values;
}

function matrices(data: readonly Float64Array[]): Tensor[] {
  return data.map((values) => fromData(values.slice(), [2, 2], 'f64'));
}

const data = Array.from({ length: leafCount }, (_, i) =>
  Float64Array.from({ length: 4 }, (_, j) => Math.sin(5 * i + 2 * j + 1)),
);

describe('the gradients of several losses', () => {
  test('add up in any order, computed between them or not, made again or not (random graphs, finite differences)', async () => {
    const picks = fc.array(fc.nat(20), { minLength: 2, maxLength: 4 });
    const property = fc.asyncProperty(
      steps,
      picks,
      fc.boolean(),
      fc.boolean(),
      async (program, roots, reads, again) => {
        const losses = (leaves: readonly Tensor[]): Tensor[] => {
          const half = Math.ceil(program.length / 2);
          const early = grow(leaves, program.slice(0, half));
          const later = (): Tensor[] => grow(early, program.slice(half));
          const values = (again ? checkpoint(later) : later()).slice(leafCount);
          return roots.map((pick) => (values[pick % values.length] as Tensor).square().sum());
        };
        const total = async (inputs: readonly ArrayLike<number>[]): Promise<number> => {
          const leaves = matrices(inputs.map((values) => Float64Array.from(values)));
          const all = losses(leaves);
          return all.reduce((sum, loss) => sum.add(loss)).item();
        };
        const leaves = matrices(data).map((leaf) => leaf.requiresGrad_());
        for (const loss of losses(leaves)) {
          loss.backward();
          if (reads) await loss.item();
        }
        const gradients = await Promise.all(
          leaves.map(async ({ grad }) => Array.from((await grad?.data()) ?? [0, 0, 0, 0], Number)),
        );
        await checkGradients(total, data, gradients, { directions: 2, elementwiseLimit: 0 });
      },
    );
    await fc.assert(property, { numRuns: 150 });
  });

  test('are those of the shared layers, too', async () => {
    const gradientsOf = async (order: readonly number[]): Promise<number[]> => {
      const a = new Linear(2, 2);
      const b = new Linear(2, 1);
      for (const parameter of [...a.parameters(), ...b.parameters()]) {
        parameter.assign(tensor(1).expand(parameter.shape));
      }
      const h = a.forward(tensor([[1, 2]]));
      const losses = [h.sum(), b.forward(h).sum(), b.forward(h.square()).sum()];
      for (const index of order) losses[index]?.backward();
      return Array.from((await a.weight.grad?.data()) ?? [], Number);
    };
    // dh is 1 + 1 + 2 h, where h = 1 + 2 + 1.
    expect(await gradientsOf([0, 1, 2])).toEqual([10, 20, 10, 20]);
    expect(await gradientsOf([2, 0, 1])).toEqual([10, 20, 10, 20]);
    expect(await gradientsOf([1, 1])).toEqual([2, 4, 2, 4]);
  });
});

function leaf(length: number): Tensor {
  return fromData(new Float32Array(length).fill(2), [length], 'f32').requiresGrad_();
}

describe('an update between two backward passes', () => {
  test('is an error where the second reads what was updated', async () => {
    const [a, b] = [new Linear(2, 2), new Linear(2, 1)];
    const optimizer = new SGD(b.parameters(), { lr: 0.1 });
    const h = a.forward(tensor([[1, 2]]));
    h.sum().backward();
    const second = b.forward(h).sum();
    second.backward();
    await optimizer.step();
    expect(() => second.backward()).toThrow(TensorStateError);
    expect(() => b.forward(h).sum().mul(second).backward()).toThrow(/all losses before step\(\)/);
  });

  test('is an error also where only the gradient reads it, and not the forward pass again', async () => {
    const [weight, scale] = [leaf(300), leaf(300)];
    const h = weight.mul(scale);
    const first = scale.sum();
    first.backward();
    await new SGD([scale], { lr: 1 }).step();
    expect(() => h.sum().backward()).toThrow(/updated in place after the forward pass/);
  });

  test('is no matter for a loss that does not read it: the generator after the discriminator', async () => {
    const [generator, discriminator] = [tensor([2]).requiresGrad_(), tensor([3]).requiresGrad_()];
    const optimizers = [new SGD([discriminator], { lr: 0.1 }), new SGD([generator], { lr: 0.1 })];
    const fake = generator.mul(4);
    discriminator.mul(fake.detach()).sum().backward();
    await optimizers[0]?.step();
    expect(await discriminator.item()).toBeCloseTo(3 - 0.1 * 8, 6);
    discriminator.mul(fake).sum().neg().backward();
    await optimizers[1]?.step();
    expect(await generator.item()).toBeCloseTo(2 + 0.1 * 4 * (3 - 0.8), 6);
  });

  test('where a part is made again in backward, is seen there', async () => {
    const weight = tensor([2, 3]).requiresGrad_();
    const loss = checkpoint(() => weight.mul(weight).exp().log()).sum();
    weight.sum().backward();
    await new SGD([weight], { lr: 1 }).step();
    expect(() => loss.backward()).toThrow(TensorStateError);
  });
});

describe('memory', () => {
  /** The number of nodes that a node keeps alive. */
  function reachable(root: Node): number {
    const nodes = new Set([root]);
    for (const node of nodes) for (const input of node.inputs) nodes.add(input);
    return nodes.size;
  }

  test('a loss that was read keeps no graph after the step, whenever it was read', async () => {
    const layer = new Linear(4, 4);
    const optimizer = new SGD(layer.parameters(), { lr: 0.1 });
    const losses: Tensor[] = [];
    for (const readsBefore of [true, false, true]) {
      const loss = layer
        .forward(tensor([[1, 2, 3, 4]]))
        .square()
        .sum();
      optimizer.zeroGrad();
      loss.backward();
      if (readsBefore) await loss.item();
      await optimizer.step();
      losses.push(loss);
    }
    expect(losses.map(({ node }) => reachable(node))).toEqual([1, 1, 1]);
  });
});
