import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { Linear } from '../src/nn/layers/linear.ts';
import { Parameter } from '../src/nn/parameter/parameter.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { Adam } from '../src/optim/adam.ts';
import { clipGradNorm, totalGradNorm } from '../src/optim/clip-grad-norm.ts';
import { LossScaler } from '../src/optim/loss-scaler.ts';
import { SGD } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import { TensorStateError } from '../src/spec/errors.ts';
import { ones, tensor } from '../src/tensor/create.ts';

beforeEach(() => setRank({ device: interpreter() }));

/**
 * Returns a model in which a parameter was replaced, as strategies do, and an optimizer that was made before the
 * replacement.
 */
function replaced() {
  const layer = new Linear(2, 2);
  const model = new Sequential(layer);
  const { weight: old } = layer;
  const optimizer = new Adam(model.parameters());
  model.replaceParameters(new Map([[old, new Parameter(new Float32Array(4), [2, 2])]]));
  return { model, layer, old, optimizer };
}

type Replaced = ReturnType<typeof replaced>;

describe('a parameter that a strategy has replaced in its model', () => {
  const uses: Readonly<Record<string, (replacement: Replaced) => unknown>> = {
    'in an expression': ({ old }) => old.square().sum(),
    'as an operand': ({ old }) => ones([2, 2]).matmul(old),
    'by its shape': ({ old }) => old.shape,
    'to be read': ({ old }) => old.data(),
    'to be read as one number': ({ old }) => old.item(),
    'to be computed': ({ old }) => old.realize(),
    'by its gradient': ({ old }) => old.grad,
    'to set its gradient': ({ old }) => old.setGradientNode(tensor(1).node),
    'to clear its gradient': ({ old }) => old.zeroGrad(),
    'to freeze it': ({ old }) => old.requiresGrad_(false),
    'to hook its gradient': ({ old }) => old.registerPostAccumulateGradHook(() => {}),
    'to be assigned to': ({ old }) => old.assign(tensor(1)),
    'by the step of an optimizer': ({ optimizer }) => optimizer.step(),
    'by the zeroGrad of an optimizer': ({ optimizer }) => optimizer.zeroGrad(),
    'by the states of an optimizer': ({ optimizer }) => optimizer.stateDict(),
    'for another optimizer': ({ old }) => new SGD([old]),
    'in another group of an optimizer': ({ old, model }) =>
      new SGD(model.parameters()).addParamGroup({ params: [old] }),
    'to clip gradients': ({ old }) => clipGradNorm([old], 1),
    'to measure gradients': ({ old }) => totalGradNorm([old]),
    'to unscale gradients': ({ optimizer }) => new LossScaler(2).unscale(optimizer),
    'for a scaled step': ({ optimizer }) => new LossScaler(2).step(optimizer),
  };

  test.each(Object.entries(uses))('is refused %s', async (_, use) => {
    const error = await Promise.resolve()
      .then(() => use(replaced()))
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(TensorStateError);
    expect(error).toMatchObject({
      message: expect.stringMatching(
        /parameter of shape \[2, 2\].*another one in its place, which the model has as '0.weight'\. Make optimizers after parallelize\(\)/,
      ),
      fields: { parameter: '0.weight' },
    });
  });

  test('does not keep the others from being used', async () => {
    const { model, layer } = replaced();
    const optimizer = new SGD(model.parameters(), { lr: 1 });
    model
      .forward(ones([1, 2]))
      .sum()
      .backward();
    await optimizer.step();
    expect(await layer.weight.data()).toEqual(new Float32Array(4).fill(-1));
  });
});
