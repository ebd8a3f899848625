import { equal } from '../../suite/assertions.ts';
import type { Backend } from '@shardwise/core/spec';
import { at } from '../../interpreter/nd-array.ts';
import type { NdArray } from '../../interpreter/nd-array.ts';
import { convolutions, outputShape } from './cases/contract.ts';
import type { ContractTest } from './contract-test.ts';
import { evaluate, pick } from './device.ts';
import { integers } from './host-value.ts';
import { ProgramBuilder } from './program-builder.ts';
import type { Operation } from './program-builder.ts';

/** Tests that <conv2d(x, w), dy> = <x, conv2dInput(dy, w)> = <w, conv2dWeight(x, dy)>, which is exact for integers. */
export const adjointTests: readonly ContractTest[] = convolutions.map(
  ({ title, params, x, w }) => ({
    title: `the gradients are adjoint to conv2d: ${title}`,
    check: async (backend: Backend): Promise<void> => {
      const y = outputShape(params, x, w);
      const [image, weight, gradient] = [integers(x, 1), integers(w, 2), integers(y, 3)];
      const forward = await apply(backend, { op: 'conv2d', params }, [image, weight], y);
      const byInput: Operation = { op: 'conv2dInput', params: { ...params, inputShape: x } };
      const byWeight: Operation = { op: 'conv2dWeight', params: { ...params, weightShape: w } };
      const products = [
        dot(forward, gradient),
        dot(await apply(backend, byInput, [gradient, weight], x), image),
        dot(await apply(backend, byWeight, [image, gradient], w), weight),
      ];
      equal(
        products,
        products.map(() => products[0]),
      );
    },
  }),
);

async function apply(
  backend: Backend,
  operation: Operation,
  inputs: readonly NdArray[],
  shape: readonly number[],
): Promise<NdArray> {
  const b = new ProgramBuilder();
  const ids = inputs.map((input) => b.input(input.shape));
  const program = b.build(b.op(operation, ids, shape));
  return pick((await evaluate(backend, program, inputs)).outputs, 0);
}

function dot(a: NdArray, b: NdArray): number {
  return a.values.reduce((sum, value, i) => sum + value * at(b.values, i), 0);
}
